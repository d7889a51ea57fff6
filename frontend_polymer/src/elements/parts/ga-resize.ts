import { PolymerElement, html } from '@polymer/polymer/polymer-element.js';

const STEP = 24;

/** The upper edge of a panel, by which its height is changed, with the mouse or the arrow keys. */
export class GaResize extends PolymerElement {
  static get template() {
    return html`<style>
        div {
          position: absolute;
          z-index: 4;
          top: -4px;
          left: 0;
          right: 0;
          height: 8px;
          cursor: ns-resize;
          touch-action: none;
        }
        div:hover,
        div:focus-visible {
          background: linear-gradient(transparent 3px, var(--ga-accent) 3px 5px, transparent 5px);
          outline: 2px solid var(--ga-accent);
          outline-offset: -2px;
        }
      </style>
      <div
        role="separator"
        tabindex="0"
        aria-orientation="horizontal"
        aria-label$="[[label]]"
        aria-valuenow$="[[height]]"
        on-pointerdown="_grab"
        on-pointermove="_drag"
        on-keydown="_key"
      ></div>`;
  }

  static get properties() {
    return { height: Number, label: String };
  }

  declare height: number;
  declare label: string;
  private grabbed = 0;

  _grab(event: PointerEvent): void {
    (event.target as HTMLElement).setPointerCapture(event.pointerId);
    this.grabbed = event.clientY + this.height;
  }

  _drag(event: PointerEvent): void {
    if (!(event.target as HTMLElement).hasPointerCapture(event.pointerId)) return;
    this.propose(this.grabbed - event.clientY);
  }

  _key(event: KeyboardEvent): void {
    const change = { ArrowUp: STEP, ArrowDown: -STEP }[event.key];
    if (change === undefined) return;
    event.preventDefault();
    this.propose(this.height + change);
  }

  private propose(height: number): void {
    this.dispatchEvent(new CustomEvent('resize', { detail: height }));
  }
}

customElements.define('ga-resize', GaResize);
