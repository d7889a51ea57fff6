import { html } from '@polymer/polymer/polymer-element.js';

import type { Graph } from '../../data/graph';
import { searchNames } from '../../data/search';
import { Grade, Side } from '../../generated/graph_pb';
import type { NodeRef } from '../../layout/hierarchy';
import { moduleAround } from '../../session/conditions';
import { isCodePlace } from '../../session/find';
import type { AppState } from '../../session/app-state';
import type { Command } from './commands';
import { create } from '../parts/create';
import { gradeBars, gradeStyle } from '../parts/grade-style';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';
import { gradeName, kindName } from '../parts/words';

/** A list longer than this is not read, but narrowed. */
const MOST = 60;

/** All commands, places and nodes in one list that narrows with every word; keyboard only. */
export class GaPalette extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        dialog {
          width: min(680px, 90vw);
          margin-top: 12vh;
          padding: 8px;
          border: 1px solid var(--ga-border);
          border-radius: 12px;
          background: var(--ga-surface);
          color: var(--ga-text);
          box-shadow: var(--ga-shadow);
        }
        dialog::backdrop {
          background: rgb(0 0 0 / 30%);
        }
        input {
          width: 100%;
          height: 36px;
          font-size: 15px;
        }
        #list {
          max-height: 50vh;
          margin-top: 8px;
          overflow: auto;
        }
        .item {
          display: flex;
          align-items: center;
          gap: 12px;
          padding: 4px 10px;
          border-radius: 6px;
          cursor: pointer;
        }
        .item .cut {
          flex: 1;
        }
        .item:hover {
          background: var(--ga-hover);
        }
        .item[aria-selected='true'] {
          background: var(--ga-accent-soft);
          color: var(--ga-accent);
        }
        kbd {
          padding: 0 6px;
          border: 1px solid var(--ga-border);
          border-radius: 4px;
          font: 12px/18px var(--ga-mono);
          color: var(--ga-muted);
        }
        .swatch,
        .mark {
          flex: none;
          display: grid;
          place-items: center;
          width: 22px;
          height: 14px;
          line-height: 14px;
        }
        .swatch {
          border: 1px solid;
          border-radius: 3px;
        }
        .swatch.dashed {
          border-style: dashed;
        }
        .mark::before {
          content: '›';
          color: var(--ga-muted);
        }
        .mark.place::before {
          content: '→';
        }
        .kind {
          flex: none;
          font-size: 12px;
          color: var(--ga-muted);
        }
        .none {
          padding: 4px 10px;
        }
      </style>
      <dialog id="dialog" aria-label$="[[text.shell.palette]]">
        <input
          id="input"
          role="combobox"
          aria-expanded="true"
          aria-controls="list"
          aria-autocomplete="list"
          aria-label$="[[text.shell.palette]]"
          placeholder="[[text.shell.palettePlaceholder]]"
          autocomplete="off"
          spellcheck="false"
          maxlength="200"
          on-input="_fill"
          on-keydown="_key"
        />
        <div
          id="list"
          role="listbox"
          aria-label$="[[text.shell.palette]]"
          on-click="_clicked"
        ></div>
      </dialog>`;
  }

  private commands: readonly Command[] = [];
  private graphs: AppState['graphs'] = null;
  private go: (node: NodeRef) => void = () => undefined;
  private look: (text: string) => void = () => undefined;
  private found: readonly Command[] = [];
  private at = 0;

  open(
    commands: readonly Command[],
    graphs: AppState['graphs'],
    go: (node: NodeRef) => void,
    look: (text: string) => void,
  ): void {
    if (this.dialog.open) return;
    this.commands = commands;
    this.graphs = graphs;
    this.go = go;
    this.look = look;
    this.input.value = '';
    this.dialog.showModal();
    this._fill();
    this.input.focus();
  }

  _fill(): void {
    const words = this.input.value.trim().toLowerCase().split(/\s+/);
    const fits = ({ name }: Command) => words.every((word) => name.toLowerCase().includes(word));
    const code = words.find(isCodePlace);
    const lines = code ? [this.codeSearch(this.input.value.trim())] : [];
    const found = [...this.commands.filter(fits), ...lines, ...this.nodes(words)];
    this.found = found.slice(0, MOST);
    this.at = 0;
    const items = this.found.map((command, at) => this.item(command, at));
    const none = create('div', 'muted none', this.text.find.nothing);
    this.list.replaceChildren(...(items.length > 0 ? items : [none]));
    this.mark();
  }

  /** Stacks are with the server: the search asks it. */
  private codeSearch(text: string): Command {
    return { name: this.text.find.findCode(text), keys: [], run: () => this.look(text) };
  }

  /** What it leads to: its grade, its name, its kind and, of a command, its keys. */
  private item({ name, keys, grade, kind }: Command, at: number): HTMLElement {
    const { shell } = this.text;
    const item = create('div', 'item');
    item.role = 'option';
    item.id = `item-${at}`;
    const mark = create('span', kind === undefined ? 'mark' : 'mark place');
    if (grade !== undefined) {
      mark.className = grade === Grade.UNMATCHED ? 'swatch dashed' : 'swatch';
      mark.style.cssText = gradeStyle(grade);
      mark.title = gradeName(grade, this.text);
      const bars = create('span', 'bars');
      bars.style.cssText = gradeBars(grade);
      mark.append(bars);
    }
    const about = [kind ?? shell.command, grade === undefined ? '' : gradeName(grade, this.text)];
    item.append(
      mark,
      create('span', 'cut', name),
      create('span', 'kind', about.filter((part) => part !== '').join(' · ')),
      ...keys.map((key) => create('kbd', '', key)),
    );
    return item;
  }

  _key(event: KeyboardEvent): void {
    // Letters are for the field; Escape is the dialog's own.
    event.stopPropagation();
    const { length } = this.found;
    const target = {
      ArrowDown: (this.at + 1) % length,
      ArrowUp: (this.at - 1 + length) % length,
      PageDown: Math.min(this.at + 10, length - 1),
      PageUp: Math.max(this.at - 10, 0),
    }[event.key];
    if (event.key === 'Enter') this.run(this.at);
    else if (target === undefined) return;
    else if (length > 0) {
      this.at = target;
      this.mark();
    }
    event.preventDefault();
  }

  _clicked(event: Event): void {
    const item = (event.target as HTMLElement).closest('.item');
    if (item) this.run([...this.list.children].indexOf(item));
  }

  /** The dialog returns the focus first, so that a command may move it. */
  private run(at: number): void {
    const command = this.found[at];
    if (!command) return;
    this.dialog.close();
    command.run();
  }

  /** Words of a node's name, and of the path of the module around it. */
  private nodes(words: readonly string[]): Command[] {
    const text = words.join(' ');
    if (!this.graphs || text.length < 2) return [];
    return [Side.NPU, Side.BENCH].flatMap((side) => {
      const graph = this.graphs?.[side];
      if (!graph) return [];
      const isTwin = (index: number) => side === Side.BENCH && (graph.partner[index] ?? -1) >= 0;
      return Array.from(searchNames(graph, text))
        .filter((index) => !isTwin(index))
        .slice(0, MOST)
        .map((index) => ({
          name: graph.name(index),
          keys: [],
          grade: graph.gradeOf(index),
          kind: [moduleAround(graph, index), this.kindOf(graph, side, index)]
            .filter((part) => part !== '')
            .join(' · '),
          run: () => this.go({ side, index }),
        }));
    });
  }

  /** Module or API, and the side where there are two. */
  private kindOf(graph: Graph, side: Side, index: number): string {
    const name = kindName(graph.kindOf(index), this.text);
    if (!this.graphs?.[Side.BENCH] || graph.gradeOf(index) !== Grade.UNMATCHED) return name;
    const { debug, reference } = this.text.sides;
    return `${side === Side.NPU ? debug : reference} · ${name}`;
  }

  private mark(): void {
    const items = [...this.list.querySelectorAll('.item')];
    for (const [at, item] of items.entries()) item.ariaSelected = String(at === this.at);
    items[this.at]?.scrollIntoView({ block: 'nearest' });
    if (items.length > 0) this.input.setAttribute('aria-activedescendant', `item-${this.at}`);
    else this.input.removeAttribute('aria-activedescendant');
  }

  private get dialog(): HTMLDialogElement {
    return this.$['dialog'] as HTMLDialogElement;
  }

  private get input(): HTMLInputElement {
    return this.$['input'] as HTMLInputElement;
  }

  private get list(): HTMLElement {
    return this.$['list'] as HTMLElement;
  }
}

customElements.define('ga-palette', GaPalette);
