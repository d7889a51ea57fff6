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
  @media (min-width: 1001px) {
    .column:has(ga-details[dock]:not([collapsed], [hidden])) {
      flex-direction: row;
    }
  }
  main {
    min-width: 0;
  }
  .bar {
    display: flex;
    align-items: center;
    flex: none;
    min-height: 34px;
    background: var(--ga-surface);
    border-bottom: 1px solid var(--ga-border);
  }
  @media (max-width: 760px) {
    .bar {
      flex-wrap: wrap;
    }
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
  /* Zoomed in, or in a small window: the page scrolls, and the graph keeps a place to be seen in. */
  @media (max-height: 600px), (max-width: 700px) {
    :host {
      overflow-y: auto;
    }
    ga-toolbar {
      flex: none;
    }
    .stage {
      flex: 1 0 auto;
    }
    :is(.work, .column, .split, main, .graph) {
      min-height: auto;
    }
    ga-hierarchy {
      min-height: 240px;
    }
    ga-find {
      height: 0;
      min-height: 100%;
    }
  }
  @media (max-width: 700px) {
    .split {
      flex-direction: column;
    }
    ga-find {
      width: auto;
      height: 360px;
      min-height: 0;
    }
  }
</style>`;
