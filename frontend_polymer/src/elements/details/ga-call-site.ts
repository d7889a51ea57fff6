import { html } from '@polymer/polymer/polymer-element.js';

import { Side, type StackFrame } from '../../generated/graph_pb';
import type { AppState } from '../../session/app-state';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';
import { callSite, placeText } from '../../data/stack-frames';

/** The line of code that calls the selected node; a click shows the whole stack. */
export class GaCallSite extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: block;
          min-width: 0;
        }
        button {
          max-width: 100%;
          height: 22px;
          padding: 0 6px;
          gap: 8px;
          justify-content: start;
          text-align: left;
        }
        .source {
          color: var(--ga-muted);
        }
      </style>
      <button class="plain" title="[[_title(frame, text)]]" on-click="_open">
        <span class="muted">[[text.stack.calledFrom]]</span>
        <span class="mono">[[_place(frame)]]</span>
        <span class="mono source cut">[[_source(frame)]]</span>
      </button>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      state: Object,
      frame: { type: Object, computed: '_frame(state)' },
      hidden: { type: Boolean, reflectToAttribute: true, computed: '_isHidden(frame)' },
    };
  }

  declare state: AppState;
  declare frame: StackFrame | null;

  _frame({ detail, selected }: AppState): StackFrame | null {
    const record = selected?.side === Side.BENCH ? detail?.bench : detail?.npu;
    const frames = record?.stack ?? [];
    return frames[callSite(frames)] ?? null;
  }

  _isHidden(frame: StackFrame | null): boolean {
    return frame === null;
  }

  _place(frame: StackFrame | null): string {
    return frame ? placeText(frame) : '';
  }

  _source(frame: StackFrame | null): string {
    return frame?.source.trim() ?? '';
  }

  _title(frame: StackFrame | null, text: GaCallSite['text']): string {
    return frame ? `${frame.file}:${frame.line}\n${text.stack.calledFromHint}` : '';
  }

  _open(): void {
    this.dispatchEvent(new CustomEvent('show-stack'));
  }
}

customElements.define('ga-call-site', GaCallSite);
