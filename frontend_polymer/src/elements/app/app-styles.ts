import { html } from '@polymer/polymer/polymer-element.js';

/** How `ga-app` arranges its parts. */
export const appStyles = html`<style>
  :host {
    display: flex;
    flex-direction: column;
    height: 100vh;
    background: var(--ga-background);
    position: relative;
  }
  .stage {
    position: relative;
    flex: 1;
    min-height: 0;
    display: flex;
  }
  .work,
  .column {
    flex: 1;
    min-width: 0;
    min-height: 0;
    display: flex;
    flex-direction: column;
    position: relative;
  }
  .split {
    flex: 1;
    min-height: 0;
    display: flex;
  }
  main {
    flex: 1;
    min-height: 0;
    display: flex;
    flex-direction: column;
    position: relative;
  }
  .graph {
    flex: 1;
    min-height: 0;
    display: flex;
  }
  ga-hierarchy {
    min-width: 0;
  }
  ga-overview {
    position: absolute;
    z-index: 10;
    inset: 0;
  }
  ga-hierarchy,
  ga-message {
    flex: 1;
    min-height: 0;
  }
</style>`;
