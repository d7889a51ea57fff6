import { html } from '@polymer/polymer/polymer-element.js';

import { formatCount } from './format';
import { create } from './create';
import { LocalizedElement } from './localized';
import { controls } from './styles';

/** Lists that are longer than this, or their own `data-long`, are searched; a shorter one is read. */
const LONG = 12;
/** So many are shown at once: what is not among them is found by typing. */
const MOST = 200;

/**
 * A search in the long lists of the selects that stand in the same part of the page: what opens one
 * of them opens this in its place, and the select gets what is chosen. Arrows still step through it.
 */
export class GaChoices extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        dialog {
          position: fixed;
          margin: 0;
          padding: 6px;
          width: max-content;
          min-width: 200px;
          max-width: min(640px, 96vw);
          border: 1px solid var(--ga-border);
          border-radius: 8px;
          background: var(--ga-surface);
          color: var(--ga-text);
          box-shadow: var(--ga-shadow);
        }
        dialog::backdrop {
          background: transparent;
        }
        input {
          width: 100%;
        }
        #offered {
          max-height: min(50vh, 420px);
          margin-top: 6px;
          overflow: auto;
        }
        .choice,
        .more {
          padding: 3px 10px;
          border-radius: 6px;
        }
        .choice {
          cursor: pointer;
        }
        .choice:hover {
          background: var(--ga-hover);
        }
        .choice[aria-selected='true'] {
          background: var(--ga-accent-soft);
          color: var(--ga-accent);
          outline: 1px solid transparent; /* shows where colours are forced */
        }
        .choice.current {
          font-weight: 600;
        }
      </style>
      <dialog id="offer" aria-label$="[[label]]" on-click="_clicked" on-close="_closed">
        <input
          id="wanted"
          role="combobox"
          aria-expanded="true"
          aria-controls="offered"
          aria-autocomplete="list"
          aria-label$="[[label]]"
          placeholder="[[text.shell.narrow]]"
          autocomplete="off"
          spellcheck="false"
          maxlength="200"
          on-input="_fill"
          on-keydown="_key"
        />
        <div id="offered" role="listbox" aria-label$="[[label]]"></div>
      </dialog>`;
  }

  static override get properties() {
    return { ...super.properties, label: { type: String, value: '' } };
  }

  declare label: string;
  private select: HTMLSelectElement | null = null;
  private found: readonly HTMLOptionElement[] = [];
  private at = 0;
  private around: Node | undefined;
  private readonly offer = (event: Event) => this.offered(event);

  override connectedCallback(): void {
    super.connectedCallback();
    this.around = this.getRootNode();
    for (const kind of ['mousedown', 'keydown']) this.around.addEventListener(kind, this.offer);
  }

  override disconnectedCallback(): void {
    super.disconnectedCallback();
    for (const kind of ['mousedown', 'keydown']) this.around?.removeEventListener(kind, this.offer);
  }

  /** What would open the list of a select, or look for a letter in it. */
  private offered(event: Event): void {
    const { target } = event;
    if (!(target instanceof HTMLSelectElement)) return;
    if (target.options.length <= Number(target.dataset['long'] ?? LONG)) return;
    let typed = '';
    if (event instanceof KeyboardEvent) {
      const { key, altKey, ctrlKey, metaKey } = event;
      const opens = ['Enter', ' ', 'F4'].includes(key) || (altKey && /^Arrow(Up|Down)$/.test(key));
      if (!opens && (key.length !== 1 || ctrlKey || metaKey || altKey)) return;
      typed = opens ? '' : key;
    } else if ((event as MouseEvent).button !== 0 || target.disabled) return;
    event.preventDefault();
    event.stopPropagation();
    this.open(target, typed);
  }

  private open(select: HTMLSelectElement, typed: string): void {
    this.select = select;
    this.label = select.ariaLabel ?? select.labels[0]?.textContent.trim() ?? '';
    this.input.value = typed;
    this.dialog.showModal();
    this._fill();
    const { left, bottom } = select.getBoundingClientRect();
    const most = window.innerWidth - this.dialog.offsetWidth - 8;
    this.dialog.style.left = `${Math.max(8, Math.min(left, most))}px`;
    this.dialog.style.top = `${bottom + 4}px`;
    this.input.focus();
  }

  _fill(): void {
    const { select } = this;
    if (!select) return;
    const words = this.input.value.trim().toLowerCase().split(/\s+/);
    const fits = ({ text }: HTMLOptionElement) =>
      words.every((word) => text.toLowerCase().includes(word));
    const all = [...select.options].filter(fits);
    // A number that is typed is looked for before those that it is a part of.
    const whole = all.findIndex(({ text }) => text.toLowerCase() === words.join(' '));
    if (whole > 0) all.unshift(...all.splice(whole, 1));
    const current = all.findIndex(({ selected }) => selected);
    const from = words[0] ? 0 : Math.max(0, Math.min(current - MOST / 2, all.length - MOST));
    this.found = all.slice(from, from + MOST);
    this.at = words[0] ? 0 : Math.max(0, current - from);
    const left = all.length - this.found.length;
    const note = left
      ? this.text.shell.moreChoices(formatCount(left))
      : all.length
        ? ''
        : this.text.find.nothing;
    this.list.replaceChildren(
      ...this.found.map((option, at) => {
        const choice = create('div', option.selected ? 'choice current' : 'choice', option.text);
        choice.role = 'option';
        choice.id = `choice-${at}`;
        return choice;
      }),
      ...(note ? [create('div', 'muted more', note)] : []),
    );
    this.mark();
  }

  _key(event: KeyboardEvent): void {
    // Letters are for the field; Escape is the dialog's own.
    event.stopPropagation();
    const { length } = this.found;
    const last = length - 1;
    const moves: Record<string, number> = {
      ArrowDown: this.at < last ? this.at + 1 : 0,
      ArrowUp: this.at > 0 ? this.at - 1 : last,
      PageDown: Math.min(last, this.at + 10),
      PageUp: Math.max(0, this.at - 10),
    };
    const to = moves[event.key];
    if (event.key === 'Enter') this.choose(this.at);
    else if (to === undefined || length === 0) return;
    else this.at = to;
    event.preventDefault();
    this.mark();
  }

  _clicked(event: MouseEvent): void {
    const { target } = event;
    if (target === this.dialog) this.dialog.close();
    const choice = (target as HTMLElement).closest('.choice');
    if (choice) this.choose([...this.list.children].indexOf(choice));
  }

  _closed(): void {
    this.select?.focus();
    this.select = null;
    this.list.replaceChildren();
  }

  private choose(at: number): void {
    const { select } = this;
    const option = this.found[at];
    if (!select || !option) return;
    const isOther = select.value !== option.value;
    select.value = option.value;
    this.dialog.close();
    if (isOther) select.dispatchEvent(new Event('change', { bubbles: true }));
  }

  private mark(): void {
    const choices = this.list.querySelectorAll('.choice');
    for (const [at, choice] of choices.entries()) choice.ariaSelected = String(at === this.at);
    choices[this.at]?.scrollIntoView({ block: 'nearest' });
    if (choices.length) this.input.setAttribute('aria-activedescendant', `choice-${this.at}`);
    else this.input.removeAttribute('aria-activedescendant');
  }

  private get dialog(): HTMLDialogElement {
    return this.$['offer'] as HTMLDialogElement;
  }

  private get input(): HTMLInputElement {
    return this.$['wanted'] as HTMLInputElement;
  }

  private get list(): HTMLElement {
    return this.$['offered'] as HTMLElement;
  }
}

customElements.define('ga-choices', GaChoices);
