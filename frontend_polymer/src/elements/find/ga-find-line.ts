import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-repeat.js';

import { GRADES, OVERFLOWS } from '../../data/codes';
import { findParts, isCombined, type FindPart } from '../../session/find-parts';
import type { Find } from '../../session/find';
import { Grade } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import type { AppState } from '../../session/app-state';
import type { Session } from '../../session/session';
import '../parts/ga-icon';
import { gradeBars, gradeStyle } from '../parts/grade-style';
import { kept } from '../parts/kept';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';
import { gradeName, overflowName, translated, type OverflowLevel } from '../parts/words';

interface Chip {
  readonly link: string;
  readonly label: string;
  readonly style: string;
  readonly bars: string;
  readonly hint: string;
  readonly part: FindPart;
}

/** What is looked for as one sentence, each condition of which can be taken away. */
export class GaFindLine extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: flex;
          align-items: center;
          gap: 6px;
          flex: none;
          min-height: 34px;
          padding: 2px 8px 2px 12px;
          overflow: auto hidden;
          scrollbar-width: thin;
          white-space: nowrap;
          background: var(--ga-surface);
          border-bottom: 1px solid var(--ga-border);
        }
        .condition {
          height: 24px;
          padding: 0 6px 0 8px;
          border-radius: 12px;
          gap: 4px;
          position: relative; /* what is hidden visually must not widen the page */
        }
        .condition .cut {
          max-width: 320px;
        }
        .swatch {
          display: inline-grid;
          place-items: center;
          width: 20px;
          height: 14px;
          border: 1px solid;
          border-radius: 7px;
        }
        .condition ga-icon {
          color: var(--ga-muted);
        }
        #clear {
          margin-left: auto;
          height: 24px;
          color: var(--ga-accent);
        }
      </style>
      <template is="dom-repeat" items="[[chips]]">
        <span class="muted">[[item.link]]</span>
        <button
          class="condition"
          title="[[item.hint]]"
          aria-label="[[item.hint]]"
          on-click="_remove"
        >
          <span class="swatch" style$="[[item.style]]" hidden$="[[!item.style]]"
            ><span class="bars" style$="[[item.bars]]"></span></span
          ><span class="cut">[[item.label]]</span><ga-icon name="clear"></ga-icon>
        </button>
      </template>
      <button id="clear" class="plain" on-click="_clear">[[text.find.clear]]</button>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      session: Object,
      state: Object,
      chips: { type: Array, computed: '_chips(state.view.find, text)', observer: '_changed' },
    };
  }

  declare session: Session;
  declare state: AppState;

  readonly _chips = kept((find: Find, text: Texts) => [find, text], chipsOf);

  _changed(chips: readonly Chip[]): void {
    this.hidden = chips.length === 0;
  }

  _remove(event: Event & { model: { item: Chip } }): void {
    this.session.finding.change(event.model.item.part.without);
  }

  _clear(): void {
    const { order, side } = this.state.view.find;
    this.session.finding.clear({ order, side });
  }
}

function chipsOf(find: Find, text: Texts): Chip[] {
  const parts = findParts(find);
  if (!isCombined(parts)) return [];
  return parts.map((part, at) => {
    const isAlternative = parts[at - 1]?.kind === part.kind;
    const label = labelOf(part, find, text);
    const grade = part.kind === 'grades' ? gradeOf(part) : null;
    return {
      link: isAlternative ? text.find.or : at > 0 ? text.find.and : text.find.looksFor,
      style: grade === null ? '' : gradeStyle(grade),
      bars: grade === null ? '' : gradeBars(grade),
      hint: text.find.remove(label),
      ...{ label, part },
    };
  });
}

function gradeOf({ value }: FindPart): Grade {
  return GRADES[Number(value)] ?? Grade.UNGRADED;
}

function labelOf(part: FindPart, find: Find, text: Texts): string {
  const { kind, value } = part;
  const named = (name: string) => text.find.named(name, String(value));
  switch (kind) {
    case 'text':
      return find.isPattern ? `/${value}/` : text.find.quoted(String(value));
    case 'grades':
      return gradeName(gradeOf(part), text);
    case 'overflows':
      return text.overview.overflow(
        overflowName(OVERFLOWS[Number(value)] as OverflowLevel, text).name,
      );
    case 'reasons':
      return translated<string>(text.reasons, String(value), String(value));
    case 'scope':
      return text.find.inFile;
    default:
      return named(text.find.conditions[kind].name);
  }
}

customElements.define('ga-find-line', GaFindLine);
