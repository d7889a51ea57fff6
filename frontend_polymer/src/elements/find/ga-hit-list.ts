import { html } from '@polymer/polymer/polymer-element.js';

import type { AppState } from '../../session/app-state';
import { hitCount, hitElement, hitGroups, hitPosition, hitRow, type HitGroups } from './hit-rows';
import { lowerBound } from '../../data/sorted';
import { create } from '../parts/create';
import { kept } from '../parts/kept';
import { LocalizedElement } from '../parts/localized';
import { controls } from '../parts/styles';

const ROW = 44;
const HEAD = 26;

/** The results of a search, however many: only the rows in view are elements. */
export class GaHitList extends LocalizedElement {
  static get template() {
    return html`${controls}
      <style>
        :host {
          display: block;
          min-height: 0;
        }
        #scroll {
          height: 100%;
          overflow: hidden auto;
          position: relative;
          outline-offset: -2px;
        }
        .hit {
          position: absolute;
          left: 0;
          right: 0;
          height: 44px;
          display: grid;
          grid-template-columns: 30px minmax(0, 1fr);
          align-content: center;
          align-items: center;
          padding: 0 10px;
          border-bottom: 1px solid var(--ga-border);
          cursor: pointer;
        }
        .hit:hover {
          background: var(--ga-hover);
        }
        .hit[aria-selected='true'] {
          background: var(--ga-accent-soft);
          box-shadow: inset 3px 0 var(--ga-accent);
        }
        .group {
          position: absolute;
          left: 0;
          right: 0;
          height: 26px;
          padding: 0 10px;
          font: 600 12px/26px var(--ga-font);
          color: var(--ga-muted);
          background: var(--ga-raised);
          border-bottom: 1px solid var(--ga-border);
        }
        .swatch {
          grid-row: span 2;
          display: grid;
          place-items: center;
          width: 22px;
          height: 16px;
          border: 1px solid;
          border-radius: 3px;
        }
        .swatch.dashed {
          border-style: dashed;
        }
        .name {
          line-height: 18px;
        }
        .facts {
          font-size: 12px;
          line-height: 18px;
        }
      </style>
      <div
        id="scroll"
        role="listbox"
        tabindex="0"
        aria-label="[[text.find.results]]"
        on-scroll="_draw"
        on-click="_click"
        on-keydown="_key"
      >
        <div id="rows" role="presentation"></div>
      </div>`;
  }

  static override get properties() {
    return { ...super.properties, state: Object };
  }

  static get observers() {
    return ['_listed(state.hits, state.fileHits, text)'];
  }

  declare state: AppState;
  private position = -1;
  private groups: HitGroups = { starts: new Int32Array(), title: () => '' };
  private readonly grouped = kept(
    ({ hits, fileHits, graphs, view }: AppState) => {
      return [hits?.sequence, fileHits?.result, graphs, view.find.order];
    },
    (state) => hitGroups(state),
  );
  private isShown = false;

  override connectedCallback(): void {
    super.connectedCallback();
    new ResizeObserver(([entry]) => {
      this.isShown = entry !== undefined && entry.contentRect.height > 0;
      this._listed();
    }).observe(this);
  }

  _listed(): void {
    if (!this.isShown) return; // asking where it would be scrolled to costs a layout
    const rows = this.$['rows'] as HTMLElement;
    this.groups = this.grouped(this.state);
    rows.style.height = `${this.top(hitCount(this.state))}px`;
    const position = hitPosition(this.state);
    if (position !== this.position) this.reach(Math.max(0, position));
    this.position = position;
    this._draw();
  }

  _draw(): void {
    const { viewport } = this;
    const count = hitCount(this.state);
    const first = Math.max(0, this.at(viewport.scrollTop) - 2);
    const last = Math.min(count, this.at(viewport.scrollTop + viewport.clientHeight) + 3);
    const isGrouped = this.groups.starts.length > 0;
    const elements = [];
    for (let at = first; at < last; at++) {
      const row = hitRow(this.state, at);
      if (!row) continue;
      if (this.isStart(at)) elements.push(this.heading(at));
      const element = hitElement(row, isGrouped, this.text);
      element.id = `hit${at}`;
      element.dataset['at'] = String(at);
      element.style.top = `${this.top(at)}px`;
      element.setAttribute('aria-selected', String(at === this.position));
      element.setAttribute('aria-posinset', String(at + 1));
      element.setAttribute('aria-setsize', String(count));
      elements.push(element);
    }
    (this.$['rows'] as HTMLElement).replaceChildren(...elements);
    viewport.setAttribute('aria-activedescendant', this.position < 0 ? '' : `hit${this.position}`);
  }

  _click(event: Event): void {
    const hit = (event.target as HTMLElement).closest<HTMLElement>('.hit');
    if (hit) this.choose(Number(hit.dataset['at']));
  }

  _key(event: KeyboardEvent): void {
    const last = hitCount(this.state) - 1;
    const targets: Record<string, number> = {
      ArrowDown: Math.min(last, this.position + 1),
      ArrowUp: Math.max(0, this.position - 1),
      Home: 0,
      End: last,
    };
    const target = targets[event.key];
    if (target === undefined || last < 0) return;
    event.preventDefault();
    this.choose(target);
  }

  private choose(detail: number): void {
    this.dispatchEvent(new CustomEvent('choose-hit', { detail, bubbles: true, composed: true }));
  }

  private reach(at: number): void {
    const { viewport } = this;
    const top = this.top(at);
    if (top < viewport.scrollTop) viewport.scrollTop = top - (this.isStart(at) ? HEAD : 0);
    const below = top + ROW - viewport.clientHeight;
    if (below > viewport.scrollTop) viewport.scrollTop = below;
  }

  /** Where a result stands, below the heading of its group. */
  private top(at: number): number {
    return at * ROW + lowerBound(this.groups.starts, at + 1) * HEAD;
  }

  /** The result at a height of the list. */
  private at(height: number): number {
    let [low, high] = [0, hitCount(this.state)];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.top(middle) + ROW <= height) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  private isStart(at: number): boolean {
    const { starts } = this.groups;
    return starts[lowerBound(starts, at)] === at;
  }

  private heading(at: number): HTMLElement {
    const title = this.groups.title(at) || this.text.find.outside;
    const heading = create('div', 'group cut mono', title);
    heading.title = title;
    heading.role = 'presentation';
    heading.style.top = `${this.top(at) - HEAD}px`;
    return heading;
  }

  private get viewport(): HTMLElement {
    return this.$['scroll'] as HTMLElement;
  }
}

customElements.define('ga-hit-list', GaHitList);
