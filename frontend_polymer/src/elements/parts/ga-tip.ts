import { PolymerElement, html } from '@polymer/polymer/polymer-element.js';

const DELAY_MS = 250;
const BELOW = 20;
const ABOVE = 8;
const BESIDE = 12;

/** A few lines beside the pointer, once it rests. */
export class GaTip extends PolymerElement {
  static get template() {
    return html`<style>
        div {
          position: fixed;
          z-index: 20;
          left: 0;
          top: 0;
          max-width: min(720px, 80vw);
          box-sizing: border-box;
          padding: 4px 8px;
          border-radius: 6px;
          background: var(--ga-text);
          color: var(--ga-surface);
          font: 12px/18px var(--ga-mono);
          white-space: pre-line;
          overflow-wrap: anywhere;
          pointer-events: none;
        }
        div:empty {
          display: none;
        }
      </style>
      <div id="box" aria-hidden="true"></div>`;
  }

  private timer = 0;

  /** Replaces what was shown; without lines, hides it. x and y are client coordinates. */
  show(lines: readonly string[], x: number, y: number): void {
    const box = this.$['box'] as HTMLElement;
    clearTimeout(this.timer);
    box.textContent = '';
    if (lines.length === 0) return;
    this.timer = window.setTimeout(() => {
      box.textContent = lines.join('\n');
      const { offsetWidth: width, offsetHeight: height } = box;
      const left = Math.max(ABOVE, Math.min(x + BESIDE, window.innerWidth - width - ABOVE));
      const isBelow = y + BELOW + height <= window.innerHeight;
      box.style.transform = `translate(${left}px, ${isBelow ? y + BELOW : y - height - ABOVE}px)`;
    }, DELAY_MS);
  }
}

customElements.define('ga-tip', GaTip);
