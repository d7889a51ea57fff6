import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-repeat.js';

import './ga-icon';
import { LocalizedElement } from './localized';
import { controls } from './styles';

export interface MenuItem {
  readonly id: string;
  readonly label: string;
  /** Something that is on or off; an action has neither. */
  readonly isOn?: boolean;
  /** Begins a group. */
  readonly isFirst?: boolean;
}

/** A button that opens a list of choices; arrows walk, Escape closes and the button has the focus. */
export class GaMenu extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          position: relative;
          display: inline-flex;
          flex: none;
        }
        #list {
          position: absolute;
          z-index: 15;
          top: 32px;
          right: 0;
          min-width: 220px;
          padding: 4px;
          display: grid;
          border: 1px solid var(--ga-border);
          border-radius: 8px;
          background: var(--ga-surface);
          box-shadow: var(--ga-shadow);
        }
        #list button {
          justify-content: flex-start;
          height: 30px;
          padding: 0 16px 0 4px;
          background: transparent;
          color: var(--ga-text);
          border-color: transparent;
        }
        #list button:hover,
        #list button:focus {
          background: var(--ga-hover);
        }
        #list button.first {
          margin-top: 9px;
        }
        #list button.first::before {
          content: '';
          position: absolute;
          left: 8px;
          right: 8px;
          margin-top: -35px;
          height: 1px;
          background: var(--ga-border);
        }
        .mark {
          width: 20px;
          text-align: center;
          color: var(--ga-accent);
        }
      </style>
      <button
        id="button"
        class="plain"
        aria-haspopup="menu"
        aria-expanded$="[[_word(isOpen)]]"
        disabled$="[[disabled]]"
        on-click="_toggle"
        on-keydown="_buttonKey"
      >
        [[label]]<ga-icon name="down"></ga-icon>
      </button>
      <div
        id="list"
        role="menu"
        aria-label$="[[label]]"
        hidden$="[[!isOpen]]"
        on-keydown="_key"
        on-focusout="_left"
      >
        <template is="dom-repeat" items="[[items]]">
          <button
            class$="[[_class(item)]]"
            role$="[[_role(item)]]"
            aria-checked$="[[_checked(item)]]"
            tabindex="-1"
            data-id$="[[item.id]]"
            on-click="_choose"
          >
            <span class="mark" aria-hidden="true">[[_mark(item)]]</span>[[item.label]]
          </button>
        </template>
      </div>`;
  }

  static override get properties() {
    return {
      ...super.properties,
      label: String,
      items: { type: Array, value: () => [] },
      disabled: Boolean,
      isOpen: { type: Boolean, value: false },
    };
  }

  declare items: readonly MenuItem[];
  declare isOpen: boolean;

  _word(value: boolean): string {
    return String(value);
  }

  _class({ isFirst }: MenuItem): string {
    return isFirst ? 'first' : '';
  }

  _role({ isOn }: MenuItem): string {
    return isOn === undefined ? 'menuitem' : 'menuitemcheckbox';
  }

  /** Null takes the attribute away. */
  _checked({ isOn }: MenuItem): string | null {
    return isOn === undefined ? null : String(isOn);
  }

  _mark({ isOn }: MenuItem): string {
    return isOn ? '✓' : '';
  }

  _toggle(): void {
    if (this.isOpen) this.close();
    else this.open();
  }

  _buttonKey(event: KeyboardEvent): void {
    if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return;
    event.preventDefault();
    event.stopPropagation();
    this.open();
  }

  _key(event: KeyboardEvent): void {
    const all = this.buttons;
    const at = all.indexOf(event.composedPath()[0] as HTMLButtonElement);
    const target = {
      ArrowDown: (at + 1) % all.length,
      ArrowUp: (at - 1 + all.length) % all.length,
      Home: 0,
      End: all.length - 1,
    }[event.key];
    // Keys of the viewer have no meaning in here.
    event.stopPropagation();
    if (event.key === 'Escape') this.close();
    else if (target === undefined) return;
    else all[target]!.focus();
    event.preventDefault();
  }

  _left(event: FocusEvent): void {
    if (!(this.$['list'] as HTMLElement).contains(event.relatedTarget as Node | null)) {
      this.isOpen = false;
    }
  }

  _choose(event: MouseEvent & { model: { item: MenuItem } }): void {
    const { id } = event.model.item;
    this.close();
    this.dispatchEvent(new CustomEvent('choose', { detail: id }));
  }

  private open(): void {
    this.isOpen = true;
    this.buttons[0]?.focus();
  }

  private close(): void {
    this.isOpen = false;
    (this.$['button'] as HTMLElement).focus();
  }

  private get buttons(): HTMLButtonElement[] {
    return [...(this.$['list'] as HTMLElement).querySelectorAll('button')];
  }
}

customElements.define('ga-menu', GaMenu);
