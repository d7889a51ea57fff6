import { html } from '@polymer/polymer/polymer-element.js';

import { Side } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import { fileOf, hasBench, type AppState } from '../../session/app-state';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';

/** Right ends of the columns of the one tree, in CSS pixels. */
export interface Heads {
  readonly debug: number;
  readonly reference: number;
}

/** Room of the longest head. */
const HEADS = 200;

/** What a side is called. */
export function sideName(state: AppState, side: Side, text: Texts): string {
  if (side === Side.BENCH) return text.sides.reference;
  return fileOf(state)?.isComparison ? text.sides.debug : text.sides.model;
}

/** Above the hierarchies: which side is which, and where it was read from. */
export class GaSides extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: flex;
          position: relative;
          height: 22px;
          flex: none;
          border-bottom: 1px solid var(--ga-border);
          background: var(--ga-raised);
        }
        .names {
          display: flex;
          flex: 1;
          min-width: 0;
        }
        .side {
          display: flex;
          align-items: center;
          gap: 8px;
          padding: 0 4px 0 12px;
          width: var(--split);
          min-width: 0;
          overflow: hidden;
          border-left: 3px solid transparent;
        }
        .side + .side,
        .side.single {
          flex: 1;
          width: auto;
        }
        :host([unified]) .side {
          flex: 0 1 auto;
          width: auto;
        }
        /* Where there is no room for all, the name is what must be read. */
        .side strong {
          font-weight: 600;
          flex: none;
          max-width: 100%;
        }
        .side .role {
          flex: none;
        }
        .side .path {
          color: var(--ga-muted);
          direction: rtl;
          text-align: left;
        }
        .side .path bdi {
          unicode-bidi: isolate;
        }
        .note {
          color: var(--ga-danger);
          white-space: nowrap;
        }
        .head {
          position: absolute;
          top: 0;
          padding-left: 8px;
          font: 12px/22px var(--ga-font);
          color: var(--ga-muted);
          background: var(--ga-raised);
          white-space: nowrap;
        }
      </style>
      <div class="names" style$="[[_room(heads)]]">
        <div class$="[[_sideClass(state)]]">
          <strong class="cut">[[_sideName(state, text)]]</strong>
          <span class="muted role" hidden$="[[!file.npuName]]">[[_role(state, text)]]</span>
          <span
            class="mono path cut"
            title="[[file.npuPath]]"
            hidden$="[[_same(file.npuName, file.npuPath)]]"
            ><bdi>[[file.npuPath]]</bdi></span
          >
          <span class="note" hidden$="[[!_isAlone(state)]]">[[text.header.noGraph]]</span>
        </div>
        <div class="side" hidden$="[[!_hasBench(state)]]">
          <strong class="cut">[[text.sides.reference]]</strong>
          <span class="muted role" hidden$="[[!file.benchName]]">[[text.roles.reference]]</span>
          <span
            class="mono path cut"
            title="[[file.benchPath]]"
            hidden$="[[_same(file.benchName, file.benchPath)]]"
            ><bdi>[[file.benchPath]]</bdi></span
          >
        </div>
      </div>
      <span
        class="head"
        hidden$="[[!heads]]"
        style$="[[_end(heads.debug)]]"
        title="[[text.view.valuesHint]]"
        >[[text.view.values]] · [[text.shortSides.debug]]</span
      >
      <span
        class="head"
        hidden$="[[!heads]]"
        style$="[[_end(heads.reference)]]"
        title="[[text.view.valuesHint]]"
        >[[text.shortSides.reference]]</span
      >`;
  }

  static override get properties() {
    return {
      ...super.properties,
      state: Object,
      heads: { type: Object, value: null },
      file: { type: Object, computed: '_file(state)' },
      unified: { type: Boolean, reflectToAttribute: true, computed: '_unified(state)' },
    };
  }

  _file(state: AppState) {
    return fileOf(state);
  }

  _unified(state: AppState): boolean {
    return state.view.unified && hasBench(state);
  }

  _hasBench(state: AppState): boolean {
    return hasBench(state);
  }

  /** A comparison whose reference lacks this step and rank. */
  _isAlone(state: AppState): boolean {
    return fileOf(state)?.isComparison === true && !hasBench(state);
  }

  _sideName(state: AppState, text: Texts): string {
    return sideName(state, Side.NPU, text);
  }

  _role(state: AppState, text: Texts): string {
    return fileOf(state)?.isComparison ? text.roles.debug : text.roles.model;
  }

  _same(name: string, path: string): boolean {
    return name === path;
  }

  _sideClass(state: AppState): string {
    return hasBench(state) ? 'side' : 'side single';
  }

  /** As much as the heads of the columns leave. */
  _room(heads: Heads | null): string {
    return heads ? `max-width: ${Math.round(heads.debug) - HEADS}px` : '';
  }

  /** Ends where its column ends. */
  _end(right: number): string {
    return `right: calc(100% - ${Math.round(right)}px)`;
  }
}

customElements.define('ga-sides', GaSides);
