import { html } from '@polymer/polymer/polymer-element.js';
import '@polymer/polymer/lib/elements/dom-repeat.js';

import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';

export interface NodeAction {
  readonly label: string;
  readonly run: () => void;
}

/** What can be done with a node of the graph, where the pointer is. */
export class GaNodeMenu extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          position: fixed;
          z-index: 30;
          min-width: 200px;
          padding: 4px;
          display: grid;
          border: 1px solid var(--ga-border);
          border-radius: 8px;
          background: var(--ga-surface);
          box-shadow: var(--ga-shadow);
        }
        button {
          justify-content: flex-start;
          border-color: transparent;
          background: transparent;
        }
        button:focus {
          background: var(--ga-hover);
        }
      </style>
      <template is="dom-repeat" items="[[actions]]">
        <button role="menuitem" tabindex="-1" on-click="_run">[[item.label]]</button>
      </template>`;
  }

  static override get properties() {
    return { ...super.properties, actions: { type: Array, value: () => [] } };
  }

  declare actions: readonly NodeAction[];
  private giveBack: () => void = () => undefined;

  override ready(): void {
    super.ready();
    this.setAttribute('role', 'menu');
    this.hidden = true;
    this.addEventListener('keydown', (event) => this.key(event));
    this.addEventListener('focusout', (event) => {
      if (!this.shadowRoot?.contains(event.relatedTarget as Node | null)) this.hidden = true;
    });
  }

  /** Opens inside the window; `giveBack` returns the focus to where it was. */
  openAt(x: number, y: number, actions: readonly NodeAction[], giveBack: () => void): void {
    this.actions = actions;
    this.giveBack = giveBack;
    this.hidden = false;
    // The items of a list are made later, once all changes are known.
    requestAnimationFrame(() => {
      const { width, height } = this.getBoundingClientRect();
      this.style.left = `${Math.max(0, Math.min(x, window.innerWidth - width))}px`;
      this.style.top = `${Math.max(0, Math.min(y, window.innerHeight - height))}px`;
      this.buttons[0]?.focus();
    });
  }

  _run(event: Event & { model: { item: NodeAction } }): void {
    this.close();
    event.model.item.run();
  }

  private key(event: KeyboardEvent): void {
    const { buttons } = this;
    const at = buttons.indexOf(this.shadowRoot?.activeElement as HTMLButtonElement);
    const target = {
      ArrowDown: (at + 1) % buttons.length,
      ArrowUp: (at - 1 + buttons.length) % buttons.length,
      Home: 0,
      End: buttons.length - 1,
    }[event.key];
    event.stopPropagation();
    if (event.key === 'Escape' || event.key === 'Tab') this.close();
    else if (target === undefined) return;
    else buttons[target]?.focus();
    event.preventDefault();
  }

  private close(): void {
    this.hidden = true;
    this.giveBack();
  }

  private get buttons(): HTMLButtonElement[] {
    return [...(this.shadowRoot?.querySelectorAll('button') ?? [])];
  }
}

customElements.define('ga-node-menu', GaNodeMenu);
