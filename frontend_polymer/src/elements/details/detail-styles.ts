import { html } from '@polymer/polymer/polymer-element.js';

/** How the panel at the bottom is laid out. */
export const detailStyles = html`<style>
  :host {
    display: flex;
    flex-direction: column;
    flex: none;
    position: relative;
    background: var(--ga-surface);
    border-top: 1px solid var(--ga-border);
    min-height: 0;
  }
  /* Not in per cent of what it stands in: that would be measured as if it had no height set. */
  :host(:not([collapsed])) {
    height: min(var(--height), max(70vh, 240px));
  }
  @media (min-width: 1001px) {
    :host([dock]:not([collapsed])) {
      width: min(var(--width), 70vw);
      height: auto;
      border-top: none;
      border-left: 1px solid var(--ga-border);
    }
    :host([dock]:not([collapsed])) .header {
      align-items: flex-start;
    }
    :host([dock]:not([collapsed])) ga-node-summary {
      --ga-summary-wrap: wrap;
    }
    :host([dock]:not([collapsed])) .tabs {
      flex-wrap: wrap;
      overflow: visible;
    }
  }
  .header {
    display: flex;
    align-items: center;
    gap: 8px;
    padding: 2px 8px 0 12px;
    flex: none;
  }
  .tabs {
    display: flex;
    align-items: center;
    justify-content: space-between;
    gap: 12px;
    padding: 0 8px 2px;
    border-bottom: 1px solid var(--ga-border);
    flex: none;
    overflow: hidden;
  }
  .tabs button {
    height: 24px;
  }
  @media (max-width: 1100px) {
    .tabs {
      flex-wrap: wrap;
      gap: 2px 12px;
    }
  }
  /* The line of code stands below where it has no room beside. */
  .about {
    display: flex;
    flex-wrap: wrap;
    align-items: center;
    gap: 0 8px;
    flex: 1;
    min-width: 0;
  }
  ga-call-site {
    flex: 1 1 240px;
    min-width: 0;
  }
  ga-node-summary {
    flex: 0 1 auto;
    min-width: 0;
  }
  @media (max-width: 1000px) {
    #dock {
      display: none;
    }
  }
  [role='tablist'] {
    display: flex;
    flex-wrap: wrap;
    gap: 4px;
    flex: 0 1 auto;
  }
  [role='tab'][aria-selected='true'] {
    background: var(--ga-accent-soft);
    color: var(--ga-accent);
    font-weight: 600;
  }
  .body {
    flex: 1;
    min-height: 0;
    display: flex;
    position: relative;
  }
  ga-tensor-table,
  ga-communication,
  ga-flow,
  ga-across {
    flex: 1;
    min-width: 0;
  }
  .stacks {
    flex: 1;
    display: grid;
    grid-auto-flow: column;
    grid-auto-columns: minmax(0, 1fr);
    overflow: auto;
  }
  .stacks ga-stack + ga-stack {
    border-left: 1px solid var(--ga-border);
  }
  .empty {
    margin: auto;
    text-align: center;
    color: var(--ga-muted);
  }
  .empty button {
    margin-top: 8px;
  }
  .empty p {
    margin: 4px 16px;
  }
  .body[data-busy] > * {
    opacity: 0.5;
    transition: opacity 0.1s 0.3s;
  }
</style>`;
