import { html } from '@polymer/polymer/polymer-element.js';

export const cardStyles = html`<style>
  :host {
    display: block;
    min-width: 0;
  }
  header {
    display: flex;
    align-items: center;
    flex-wrap: wrap;
    gap: 6px 12px;
  }
  h2 {
    margin: 0;
    padding: 1px 12px;
    border: 1px solid var(--ga-border);
    border-radius: 11px;
    font: 600 14px/22px var(--ga-font);
    white-space: nowrap;
  }
  h2[data-conclusion='fault'] {
    background: var(--ga-grade-13-fill);
    color: var(--ga-grade-13-text);
    border-color: var(--ga-grade-13-stroke);
  }
  h2[data-conclusion='clean'] {
    background: var(--ga-grade-11-fill);
    color: var(--ga-grade-11-text);
    border-color: var(--ga-grade-11-stroke);
  }
  h2[data-conclusion='undecided'] {
    background: var(--ga-grade-14-fill);
    color: var(--ga-grade-14-text);
    border-color: var(--ga-grade-14-stroke);
  }
  .where {
    display: flex;
    flex-wrap: wrap;
    align-items: baseline;
    gap: 2px 8px;
    min-width: 0;
    flex: 1 1 300px;
    font-size: 15px;
  }
  .where b {
    overflow-wrap: anywhere;
  }
  .where .path {
    color: var(--ga-muted);
    overflow-wrap: anywhere;
  }
  .line {
    display: flex;
    flex-wrap: wrap;
    gap: 2px 12px;
    margin: 6px 0 0;
    overflow-wrap: anywhere;
  }
  .line code {
    font-family: var(--ga-mono);
    font-size: 12px;
  }
  dl {
    display: grid;
    grid-template-columns: repeat(auto-fit, minmax(min(100%, 260px), 1fr));
    gap: 10px 24px;
    margin: 12px 0 0;
  }
  dl > div {
    min-width: 0;
  }
  dt {
    font-size: 12px;
    color: var(--ga-muted);
  }
  dd {
    margin: 2px 0 0;
    max-width: 72ch;
    overflow-wrap: anywhere;
  }
  .where b {
    font-size: 15px;
  }
  .large .mono {
    font-size: 18px;
  }
  .large {
    font-size: 18px;
    line-height: 26px;
    font-weight: 600;
  }
  .large .own {
    color: var(--ga-danger);
  }
  .large .name {
    font-size: 13px;
    font-weight: 400;
  }
  #picture svg {
    width: 96px;
    height: 48px;
    margin-top: 4px;
    border: 1px solid var(--ga-border);
    fill: var(--ga-danger);
  }
  #check {
    display: flex;
    align-items: flex-start;
    gap: 4px;
  }
  #check code {
    font-family: var(--ga-mono);
    font-size: 12px;
  }
  #rival {
    height: auto;
    padding: 0;
    color: var(--ga-accent);
    white-space: normal;
    text-align: left;
    overflow-wrap: anywhere;
  }
  #limits {
    margin: 12px 0 0;
    font-size: 12px;
    color: var(--ga-muted);
    overflow-wrap: anywhere;
  }
</style>`;
