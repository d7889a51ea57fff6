import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-if.js';
import '@polymer/polymer/lib/elements/dom-repeat.js';

import type { NodeRecord, StackFrame } from '../../generated/graph_pb';
import type { Texts } from '../../i18n';
import '../parts/ga-copy';
import '../parts/ga-icon';
import { LocalizedElement } from '../parts/localized';
import { editorLink, stackSections, stackText, type StackSection } from '../../data/stack-frames';
import { controls } from '../parts/styles';

const NONE: ReadonlySet<number> = new Set();

interface ShownSection extends StackSection {
  readonly at: number;
  readonly isShown: boolean;
  readonly label: string;
}

/**
 * Where a node was called from, innermost frame first: the line that calls it and the user's own code
 * in full, everything else folded by package.
 */
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
        li.site {
          border-left: 4px solid var(--ga-accent);
          padding-left: 10px;
          color: var(--ga-text);
          background: var(--ga-accent-soft);
        }
        li.folded {
          padding: 0;
          border-left-color: var(--ga-border);
        }
        li.folded button {
          height: 22px;
          color: var(--ga-muted);
        }
        .line {
          display: flex;
          align-items: center;
          gap: 8px;
          min-height: 24px;
          flex-wrap: wrap;
        }
        .place {
          color: var(--ga-muted);
        }
        a {
          color: var(--ga-accent);
          font-size: 12px;
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
        <template
          is="dom-repeat"
          items="[[_sections(record, showLibrary, opened, text)]]"
          as="section"
        >
          <template is="dom-if" if="[[!section.isShown]]" restamp>
            <li class="folded">
              <button class="plain" aria-expanded="false" on-click="_open">
                <ga-icon name="next"></ga-icon>[[section.label]]
              </button>
            </li>
          </template>
          <template is="dom-if" if="[[section.isShown]]" restamp>
            <template is="dom-repeat" items="[[section.frames]]">
              <li class$="[[_class(section)]]">
                <template is="dom-if" if="[[item.file]]">
                  <div class="line">
                    <span class="mono">[[item.function]]</span>
                    <span class="mono place">[[item.file]]:[[item.line]]</span>
                    <ga-copy value="[[_place(item)]]" label="[[text.stack.copyPlace]]"></ga-copy>
                    <a
                      href$="[[_editor(item)]]"
                      target="_blank"
                      rel="noopener"
                      hidden$="[[!_editor(item)]]"
                      title="[[text.stack.editorHint]]"
                      >[[text.stack.editor]]</a
                    >
                  </div>
                </template>
                <pre>[[_source(item)]]</pre>
              </li>
            </template>
          </template>
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
      opened: { type: Object, value: () => NONE },
    };
  }

  static get observers() {
    return ['_recordChanged(record)'];
  }

  declare record: NodeRecord | undefined;
  declare label: string;
  declare showLibrary: boolean;
  declare opened: ReadonlySet<number>;

  /** Other frames, other sections. */
  _recordChanged(): void {
    this.opened = NONE;
  }

  _sections(
    record: NodeRecord | undefined,
    showLibrary: boolean,
    opened: ReadonlySet<number>,
    text: Texts,
  ): ShownSection[] {
    return stackSections(record?.stack ?? []).map((section, at) => ({
      ...{ ...section, at },
      isShown: section.isOpen || showLibrary || opened.has(at),
      label: text.stack.folded(section.package, section.frames.length),
    }));
  }

  _open(event: Event & { model: { section: ShownSection } }): void {
    this.opened = new Set([...this.opened, event.model.section.at]);
  }

  _place({ file, line }: StackFrame): string {
    return `${file}:${line}`;
  }

  _editor(frame: StackFrame): string {
    return editorLink(frame);
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

  _class(section: ShownSection): string {
    const isLibrary = section.package !== '';
    return [isLibrary ? 'library' : '', section.isCallSite ? 'site' : ''].join(' ').trim();
  }

  /** Folding makes sense only where there is something to fold. */
  _foldable(record: NodeRecord | undefined): boolean {
    return stackSections(record?.stack ?? []).some(({ isOpen }) => !isOpen);
  }

  _toggleLabel(record: NodeRecord | undefined, showLibrary: boolean, text: Texts): string {
    const folded = stackSections(record?.stack ?? []).filter(({ isOpen }) => !isOpen);
    const count = folded.reduce((sum, { frames }) => sum + frames.length, 0);
    return showLibrary ? text.stack.hideLibrary(count) : text.stack.showLibrary(count);
  }

  _toggle(): void {
    this.dispatchEvent(new CustomEvent('show-library', { detail: !this.showLibrary }));
  }
}

customElements.define('ga-stack', GaStack);
