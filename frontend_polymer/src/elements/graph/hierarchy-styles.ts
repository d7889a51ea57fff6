import { html } from '@polymer/polymer/polymer-element.js';

/** How the two hierarchies are laid out. */
export const hierarchyStyles = html`<style>
  :host {
    display: flex;
    flex-direction: column;
    background: var(--ga-surface);
    --split: 50%;
  }
  .sides {
    display: flex;
    height: 28px;
    flex: none;
    border-bottom: 1px solid var(--ga-border);
    background: var(--ga-raised);
  }
  .side {
    display: flex;
    align-items: center;
    gap: 8px;
    padding: 0 4px 0 12px;
    width: var(--split);
    min-width: 0;
    border-left: 3px solid transparent;
  }
  .side + .side,
  .side.single {
    flex: 1;
    width: auto;
  }
  .side strong {
    font-weight: 600;
    flex: none;
  }
  .side .path {
    color: var(--ga-muted);
    direction: rtl;
    text-align: left;
  }
  .side .path bdi {
    unicode-bidi: isolate;
  }
  .note {
    color: var(--ga-danger);
    white-space: nowrap;
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
