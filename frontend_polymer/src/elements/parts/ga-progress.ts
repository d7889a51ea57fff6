import { PolymerElement, html } from '@polymer/polymer/polymer-element.js';

import { controls } from './styles';

/** Says that something is under way, once it takes long enough to be noticed. */
export class GaProgress extends PolymerElement {
  static get template() {
    return html`${controls}
      <style>
        .bar {
          position: absolute;
          z-index: 10;
          top: 0;
          left: 0;
          right: 0;
          height: 3px;
          overflow: hidden;
          opacity: 0;
        }
        .bar[data-active] {
          animation: appear 0.1s 0.4s forwards;
        }
        .bar::after {
          content: '';
          display: block;
          width: 30%;
          height: 100%;
          background: var(--ga-accent);
          animation: slide 1.2s infinite ease-in-out;
        }
        p {
          position: absolute;
          z-index: 9;
          top: 40%;
          left: 0;
          right: 0;
          text-align: center;
          color: var(--ga-muted);
          opacity: 0;
          animation: appear 0.1s 0.4s forwards;
        }
        @keyframes appear {
          to {
            opacity: 1;
          }
        }
        @keyframes slide {
          from {
            transform: translateX(-100%);
          }
          to {
            transform: translateX(340%);
          }
        }
        @media (prefers-reduced-motion: reduce) {
          .bar::after {
            animation: none;
            width: 100%;
          }
        }
      </style>
      <div class="bar" data-active$="[[active]]"></div>
      <p role="status" hidden$="[[!message]]">[[message]]</p>`;
  }

  static get properties() {
    return { active: Boolean, message: String };
  }

  declare active: boolean;
  /** Shown in the middle where there is nothing else to see yet; may be empty. */
  declare message: string;
}

customElements.define('ga-progress', GaProgress);
