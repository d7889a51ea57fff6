import { PolymerElement, html } from '@polymer/polymer/polymer-element.js';

export class GaApp extends PolymerElement {
  static get template() {
    return html`<p>msprobe-graph</p>`;
  }
}

customElements.define('ga-app', GaApp);
