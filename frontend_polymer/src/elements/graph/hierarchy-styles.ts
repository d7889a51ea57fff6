import { html } from '@polymer/polymer/polymer-element.js';

/** How the two hierarchies are laid out. */
export const hierarchyStyles = html`<style>
  :host {
    display: flex;
    flex-direction: column;
    background: var(--ga-surface);
    --split: 50%;
  }
  #pick {
    flex: none;
    padding: 4px 12px;
    background: var(--ga-accent-soft);
    color: var(--ga-accent);
    font-weight: 600;
  }
  #canvas {
    flex: 1;
    min-height: 0;
    position: relative;
  }
</style>`;
