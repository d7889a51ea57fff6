import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-if.js';
import '@polymer/polymer/lib/elements/dom-repeat.js';

import type { NodeRecord, StackFrame } from '../generated/graph_pb';
import type { Texts } from '../i18n';
import './ga-copy';
import { LocalizedElement } from './localized';
import { stackText, visibleFrames } from './stack-text';
import { controls } from './styles';

/** Where a node was called from, innermost frame first, the user's own code before libraries. */
export class GaStack extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: block;
          padding: 8px 12px;
          min-width: 0;
        }
        .header {
          display: flex;
          align-items: center;
          gap: 8px;
          min-height: 28px;
          font-weight: 600;
        }
        ol {
          list-style: none;
          margin: 4px 0;
          padding: 0;
        }
        li {
          padding: 4px 0 4px 12px;
          border-left: 2px solid var(--ga-accent);
          margin-bottom: 4px;
          overflow-wrap: anywhere;
        }
        li.library {
          border-left-color: var(--ga-border);
          color: var(--ga-muted);
        }
        .place {
          color: var(--ga-muted);
        }
        pre {
          margin: 0;
          font: 12px/18px var(--ga-mono);
          white-space: pre-wrap;
        }
      </style>
      <div class="header">
        <span>[[label]]</span>
        <ga-copy
          value="[[_all(record)]]"
          label="[[text.stack.copy]]"
          hidden$="[[!record.stack.length]]"
        ></ga-copy>
      </div>
      <p class="muted" hidden$="[[record.stack.length]]">[[_nothing(record, text)]]</p>
      <ol>
        <template is="dom-repeat" items="[[_frames(record, showLibrary)]]">
          <li class$="[[_class(item)]]">
            <template is="dom-if" if="[[item.file]]">
              <span class="mono">[[item.function]]</span>
              <span class="mono place">[[item.file]]:[[item.line]]</span>
            </template>
            <pre>[[_source(item)]]</pre>
          </li>
        </template>
      </ol>
      <button class="plain" on-click="_toggle" hidden$="[[!_foldable(record)]]">
        [[_toggleLabel(record, showLibrary, text)]]
      </button>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      record: Object,
      label: String,
      showLibrary: { type: Boolean, value: false },
    };
  }

  declare record: NodeRecord | undefined;
  declare label: string;
  declare showLibrary: boolean;

  _frames(record: NodeRecord | undefined, showLibrary: boolean): StackFrame[] {
    return visibleFrames(record?.stack ?? [], showLibrary);
  }

  _all(record: NodeRecord | undefined): string {
    return stackText(record?.stack ?? []);
  }

  _nothing(record: NodeRecord | undefined, text: Texts): string {
    return record ? text.stack.none : text.stack.missing;
  }

  _source(frame: StackFrame): string {
    return frame.source.trim();
  }

  _class(frame: StackFrame): string {
    return frame.isLibrary ? 'library' : '';
  }

  /** Folding makes sense only where frames of both kinds exist. */
  _foldable(record: NodeRecord | undefined): boolean {
    const frames = record?.stack ?? [];
    return visibleFrames(frames, false).length < frames.length;
  }

  _toggleLabel(record: NodeRecord | undefined, showLibrary: boolean, text: Texts): string {
    const count = record?.stack.filter((frame) => frame.isLibrary).length ?? 0;
    return showLibrary ? text.stack.hideLibrary(count) : text.stack.showLibrary(count);
  }

  _toggle(): void {
    this.dispatchEvent(new CustomEvent('show-library', { detail: !this.showLibrary }));
  }
}

customElements.define('ga-stack', GaStack);
