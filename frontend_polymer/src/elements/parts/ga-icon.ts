import { PolymerElement, html } from '@polymer/polymer/polymer-element.js';

/** Strokes on a 16 × 16 grid. */
const PATHS = {
  refresh: 'M13 8a5 5 0 1 1-1.5-3.6M13 2v3h-3',
  help: 'M6 6a2 2 0 1 1 2.9 1.8c-.6.3-.9.7-.9 1.5M8 12v.1M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0',
  sun: 'M8 1.5v1M8 13.5v1M1.5 8h1M13.5 8h1M3.4 3.4l.7.7M11.9 11.9l.7.7M12.6 3.4l-.7.7M4.1 11.9l-.7.7M10.8 8a2.8 2.8 0 1 1-5.6 0 2.8 2.8 0 0 1 5.6 0',
  moon: 'M13 9.5A5.5 5.5 0 0 1 6.5 3a5.5 5.5 0 1 0 6.5 6.5z',
  auto: 'M2 3h12v8H2zM6 14h4M8 11v3',
  search: 'M11 7a4 4 0 1 1-8 0 4 4 0 0 1 8 0M10 10l4 4',
  previous: 'M4 10l4-4 4 4',
  next: 'M4 6l4 4 4-4',
  clear: 'M4 4l8 8M12 4l-8 8',
  copy: 'M6 6h7v7H6zM10 6V3H3v7h3',
  jump: 'M3 8h9M8.5 4.5L12 8l-3.5 3.5',
  back: 'M13 8H4M7.5 4.5L4 8l3.5 3.5',
  download: 'M8 2.5v7M5 7l3 3 3-3M3 13h10',
  columns: 'M2.5 3h11v10h-11zM6.2 3v10M9.8 3v10',
  order: 'M5 3v10M2.5 10.5L5 13l2.5-2.5M9 4h5M9 8h4M9 12h2',
  merge: 'M3 2.5v2c0 3 5 2.5 5 6v3M13 2.5v2c0 3-5 2.5-5 6',
  link: 'M7 9a2.5 2.5 0 0 0 3.6 0l2-2A2.5 2.5 0 0 0 9 3.4l-.6.6M9 7a2.5 2.5 0 0 0-3.6 0l-2 2A2.5 2.5 0 0 0 7 12.6l.6-.6',
  expand: 'M4 6l4-4 4 4M4 10l4 4 4-4',
  collapse: 'M4 2l4 4 4-4M4 14l4-4 4 4',
  path: 'M3 3v7a3 3 0 0 0 3 3h6M10 10l3 3-3 3M3 6h5',
  fit: 'M2 6V2h4M10 2h4v4M14 10v4h-4M6 14H2v-4',
  plus: 'M8 3v10M3 8h10',
  minus: 'M3 8h10',
  list: 'M3 4h1M6 4h8M5 8h1M8 8h6M5 12h1M8 12h6',
  down: 'M4 6l4 4 4-4',
  up: 'M4 10l4-4 4 4',
  grid: 'M2.5 2.5h4v4h-4zM9.5 2.5h4v4h-4zM2.5 9.5h4v4h-4zM9.5 9.5h4v4h-4z',
  share: 'M9 3h4v4M13 3L7.5 8.5M11 9.5V13H3V5h3.5',
  trend: 'M2.5 2.5v11h11M4.5 10l3-3.5 2.5 2 3.5-5',
  dock: 'M2 3h12v10H2zM9.5 3v10',
  info: 'M14 8A6 6 0 1 1 2 8a6 6 0 0 1 12 0M8 7.5v3.5M8 5v.1',
  warning: 'M8 2l6.5 11.5h-13zM8 6.5v3M8 11.5v.1',
} as const;

export type IconName = keyof typeof PATHS;

export class GaIcon extends PolymerElement {
  static get template() {
    return html`<style>
        :host {
          display: inline-flex;
          flex: none;
        }
        path {
          fill: none;
          stroke: currentColor;
          stroke-width: 1.5;
          stroke-linecap: round;
          stroke-linejoin: round;
        }
      </style>
      <svg width="16" height="16" viewBox="0 0 16 16" aria-hidden="true">
        <path d$="[[path(name)]]"></path>
      </svg>`;
  }

  static get properties() {
    return { name: String };
  }

  declare name: IconName;

  path(name: IconName): string {
    return PATHS[name];
  }
}

customElements.define('ga-icon', GaIcon);
