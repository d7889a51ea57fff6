import { PolymerElement, html } from '@polymer/polymer/polymer-element.js';

const STEP = 24;

/** The upper or left edge of a panel, by which its size is changed, with the mouse or arrow keys. */
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
        :host([sideways]) div {
          top: 0;
          bottom: 0;
          left: -4px;
          right: auto;
          width: 8px;
          height: auto;
          cursor: ew-resize;
        }
      </style>
      <div
        role="separator"
        tabindex="0"
        aria-orientation$="[[_orientation(sideways)]]"
        aria-label$="[[label]]"
        aria-valuenow$="[[size]]"
        on-pointerdown="_grab"
        on-pointermove="_drag"
        on-keydown="_key"
      ></div>`;
  }

  static get properties() {
    return {
      size: Number,
      label: String,
      /** Whether it is the left edge, by which the width is changed. */
      sideways: { type: Boolean, reflectToAttribute: true, value: false },
    };
  }

  declare size: number;
  declare sideways: boolean;
  declare label: string;
  private grabbed = 0;

  _grab(event: PointerEvent): void {
    (event.target as HTMLElement).setPointerCapture(event.pointerId);
    this.grabbed = this.at(event) + this.size;
  }

  _drag(event: PointerEvent): void {
    if (!(event.target as HTMLElement).hasPointerCapture(event.pointerId)) return;
    this.propose(this.grabbed - this.at(event));
  }

  _key(event: KeyboardEvent): void {
    const [more, less] = this.sideways ? ['ArrowLeft', 'ArrowRight'] : ['ArrowUp', 'ArrowDown'];
    const change = { [more]: STEP, [less]: -STEP }[event.key];
    if (change === undefined) return;
    event.preventDefault();
    this.propose(this.size + change);
  }

  _orientation(sideways: boolean): string {
    return sideways ? 'vertical' : 'horizontal';
  }

  private at({ clientX, clientY }: PointerEvent): number {
    return this.sideways ? clientX : clientY;
  }

  private propose(size: number): void {
    this.dispatchEvent(new CustomEvent('resize', { detail: size }));
  }
}

customElements.define('ga-resize', GaResize);
