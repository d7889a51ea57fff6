import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-repeat.js';

import { CALL_ROLES } from '../../data/codes';
import {
  CallRole,
  Section,
  Side,
  type FlowLink,
  type NodeFlow,
  type TensorFlow,
} from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import type { AppState } from '../../session/app-state';
import type { Session } from '../../session/session';
import { visit } from '../../session/trail';
import { gradeStyle } from '../parts/grade-style';
import '../parts/ga-icon';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';
import { translated } from '../parts/words';

const ROLE_WORDS = ['unknown', 'clean', 'suspect', 'carrier', 'amplifier'] as const;

/** One line of the table: a tensor, and one end of its way. */
interface Line {
  readonly tensor: string;
  readonly isOutput: boolean;
  readonly way: string;
  readonly link: FlowLink | null;
  readonly missing: string;
}

/** For each input the call that made it, for each output who takes it, and the way of the fault. */
export class GaFlow extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: flex;
          flex-direction: column;
          min-height: 0;
          overflow: auto;
          overscroll-behavior: contain;
        }
        p {
          margin: 12px 16px;
        }
        .trail {
          display: flex;
          align-items: center;
          flex-wrap: wrap;
          gap: 2px 4px;
          padding: 6px 12px;
          flex: none;
        }
        .trail strong {
          padding-right: 6px;
        }
        .stop {
          height: 24px;
          padding: 0 8px;
          border-width: 1px;
          border-style: solid;
        }
        .stop[aria-current] {
          box-shadow:
            0 0 0 2px var(--ga-surface),
            0 0 0 4px var(--ga-accent);
        }
        #draw {
          margin-left: auto;
        }
        table {
          border-collapse: collapse;
          width: 100%;
        }
        th,
        td {
          padding: 1px 12px;
          text-align: left;
          white-space: nowrap;
        }
        th {
          position: sticky;
          top: 0;
          z-index: 1;
          background: var(--ga-surface);
          color: var(--ga-muted);
          font-weight: normal;
        }
        tr[data-first] td {
          border-top: 1px solid var(--ga-border);
        }
        td.how {
          width: 100%;
        }
        .end {
          height: 24px;
          padding: 0 6px;
        }
        .role {
          padding: 0 8px;
          border-radius: 10px;
          border: 1px solid var(--ga-border);
        }
        .role[data-role='suspect'] {
          border-color: var(--ga-danger);
          color: var(--ga-danger);
          font-weight: 600;
        }
        .role[data-role='carrier'],
        .role[data-role='amplifier'] {
          border-color: var(--ga-danger);
        }
      </style>
      <p class="muted" role="status" hidden$="[[!_isBusy(state)]]">[[text.flow.loading]]</p>
      <p role="alert" hidden$="[[!state.flowProblem]]">
        [[text.flow.failed]] [[state.flowProblem]]
      </p>
      <div class="trail" hidden$="[[!trail.length]]">
        <strong title="[[text.flow.trailHint]]">[[text.flow.trail]]</strong>
        <template is="dom-repeat" items="[[trail]]">
          <ga-icon name="jump" hidden$="[[!index]]"></ga-icon>
          <button
            class="stop mono"
            style$="[[_style(item)]]"
            title="[[_roleTitle(item, text)]]"
            aria-current$="[[_current(item, state)]]"
            on-click="_go"
          >
            [[_short(item)]]
          </button>
        </template>
        <button
          id="draw"
          aria-pressed$="[[_pressed(state.view.trail)]]"
          title="[[text.flow.drawHint]]"
          on-click="_draw"
        >
          <ga-icon name="path"></ga-icon>[[text.flow.draw]]
        </button>
      </div>
      <p class="muted" hidden$="[[!_isEmpty(found)]]">[[text.flow.none]]</p>
      <table hidden$="[[!lines.length]]">
        <caption class="visually-hidden">
          [[text.flow.caption]]
        </caption>
        <thead>
          <tr>
            <th scope="col">[[text.flow.tensor]]</th>
            <th scope="col">[[text.flow.way]]</th>
            <th scope="col" hidden$="[[!hasRoles]]">[[text.verdict.title]]</th>
            <th scope="col">[[text.flow.how]]</th>
          </tr>
        </thead>
        <tbody>
          <template is="dom-repeat" items="[[lines]]">
            <tr data-first$="[[item.tensor]]">
              <td class="mono">[[item.tensor]]</td>
              <td>
                <span class="muted">[[item.way]]</span>
                <button
                  class="end plain mono"
                  hidden$="[[!item.link]]"
                  title="[[_goTitle(item, text)]]"
                  on-click="_goLine"
                >
                  [[item.link.name]]
                </button>
                <span class="muted mono">[[item.link.tensor]]</span>
                <span class="muted" hidden$="[[item.link]]">[[item.missing]]</span>
              </td>
              <td hidden$="[[!hasRoles]]">
                <span
                  class="role"
                  hidden$="[[!item.link]]"
                  data-role$="[[_roleWord(item.link)]]"
                  title="[[_roleTitle(item.link, text)]]"
                  >[[_role(item.link, text)]]</span
                >
              </td>
              <td class="how muted" title="[[_certaintyHint(item.link, text)]]">
                [[_how(item.link, text)]]
              </td>
            </tr>
          </template>
        </tbody>
      </table>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      session: Object,
      state: Object,
      found: { type: Object, computed: '_found(state.flow, state.selected)' },
      lines: { type: Array, computed: '_lines(found, text)' },
      trail: { type: Array, computed: '_trail(found)' },
      hasRoles: { type: Boolean, computed: '_hasRoles(lines)' },
    };
  }

  declare session: Session;
  declare state: AppState;
  declare found: NodeFlow | null;
  declare lines: Line[];
  declare trail: FlowLink[];
  declare hasRoles: boolean;

  _found(flow: AppState['flow'], selected: AppState['selected']): NodeFlow | null {
    const isOurs = flow?.node.side === selected?.side && flow?.node.index === selected?.index;
    return flow && isOurs ? flow.found : null;
  }

  _lines(found: NodeFlow | null, text: Texts): Line[] {
    return (found?.tensors ?? []).flatMap((tensor) => linesOf(tensor, text));
  }

  _trail(found: NodeFlow | null): FlowLink[] {
    return found && found.trail.length > 1 ? found.trail : [];
  }

  _hasRoles(lines: Line[]): boolean {
    return lines.some(({ link }) => link !== null && link.role !== CallRole.UNKNOWN);
  }

  _isBusy({ flow, flowProblem, selected }: AppState): boolean {
    return selected !== null && flow === null && flowProblem === '';
  }

  _isEmpty(found: NodeFlow | null): boolean {
    return found?.tensors.length === 0;
  }

  _style({ grade }: FlowLink): string {
    return gradeStyle(grade);
  }

  /** What tells a call from the others: `mul.19`; a module by the end of its path. */
  _short({ name }: FlowLink): string {
    return shortName(name);
  }

  _current({ index }: FlowLink, { selected }: AppState): string | null {
    return selected?.side === Side.NPU && selected.index === index ? 'true' : null;
  }

  _roleWord(link: FlowLink | null): string {
    return ROLE_WORDS[CALL_ROLES.indexOf(link?.role ?? CallRole.UNKNOWN)]!;
  }

  _role(link: FlowLink | null, text: Texts): string {
    return link ? translated<string>(text.flow.roles, this._roleWord(link), '') : '';
  }

  _roleTitle(link: FlowLink | null, text: Texts): string {
    if (!link) return '';
    return `${link.name}\n${translated<string>(text.flow.roleHints, this._roleWord(link), '')}`;
  }

  _goTitle({ link }: Line, text: Texts): string {
    return link ? text.flow.goTo(link.name) : '';
  }

  _how(link: FlowLink | null, text: Texts): string {
    if (!link) return '';
    const evidence = translated<string>(text.flow.evidence, link.evidence, link.evidence);
    return `${translated<string>(text.flow.certainty, link.certainty, link.certainty)} · ${evidence}`;
  }

  _certaintyHint(link: FlowLink | null, text: Texts): string {
    return link ? translated<string>(text.flow.certaintyHints, link.certainty, '') : '';
  }

  _pressed(isDrawn: boolean): string {
    return String(isDrawn);
  }

  _draw(): void {
    this.session.setView({ trail: !this.state.view.trail });
  }

  _go(event: Event & { model: { item: FlowLink } }): void {
    this.show(event.model.item);
  }

  _goLine(event: Event & { model: { item: Line } }): void {
    this.show(event.model.item.link);
  }

  private show(link: FlowLink | null): void {
    const { flow, view } = this.state;
    if (!link || !flow) return;
    const { step, rank } = view;
    void visit(this.session, { step, rank, side: flow.node.side, node: link.name });
  }
}

function linesOf({ section, name, maker, takers }: TensorFlow, text: Texts): Line[] {
  const { flow } = text;
  const isOutput = section === Section.OUTPUT;
  const line = (way: string, link: FlowLink | null, missing = ''): Line => {
    return { tensor: '', isOutput, way, link, missing };
  };
  const from = maker ? [line(flow.from, maker)] : [];
  const to = takers.map((taker) => line(flow.to, taker));
  const none = isOutput ? flow.unknownTaker : flow.unknownMaker;
  const lines = [...from, ...to];
  if (isOutput ? to.length === 0 : from.length === 0) {
    lines.push(line(isOutput ? flow.to : flow.from, null, none));
  }
  return lines.map((one, at) => (at === 0 ? { ...one, tensor: name } : one));
}

function shortName(name: string): string {
  const parts = name.split('.');
  const isModule = parts[0] === 'Module';
  if (isModule) return parts.slice(1, -2).slice(-3, -1).join('.') || name;
  return parts.slice(1, -1).join('.') || name;
}

customElements.define('ga-flow', GaFlow);
