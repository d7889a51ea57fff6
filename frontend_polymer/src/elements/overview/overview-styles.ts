import { html } from '@polymer/polymer/polymer-element.js';

export const overviewStyles = html`<style>
  :host {
    display: block;
    overflow: auto;
    background: var(--ga-background);
    padding: 16px;
  }
  .page {
    display: grid;
    gap: 16px;
    grid-template-columns: minmax(0, 3fr) minmax(320px, 2fr);
    max-width: 2400px;
    margin: 0 auto;
    align-items: start;
  }
  section {
    min-width: 0;
    padding: 12px 16px 16px;
    border: 1px solid var(--ga-border);
    border-radius: 12px;
    background: var(--ga-surface);
  }
  section.wide {
    grid-column: 1 / -1;
  }
  h2 {
    font: 600 15px/24px var(--ga-font);
    margin: 0;
  }
  p {
    margin: 2px 0 10px;
  }
  header {
    display: flex;
    flex-wrap: wrap;
    align-items: center;
    gap: 4px 12px;
  }
  .jumps {
    display: flex;
    flex-wrap: wrap;
    gap: 8px;
  }
  header h2 {
    flex: 1 0 auto;
  }
  .scroll {
    overflow: auto;
    max-height: 46vh;
  }
  table {
    border-collapse: separate;
    border-spacing: 0;
    font-variant-numeric: tabular-nums;
  }
  .map {
    display: grid;
    width: max-content;
    padding: 0 4px 4px 0; /* for the outline of the last cells */
    font-variant-numeric: tabular-nums;
  }
  .map .part {
    display: contents;
  }
  .map .heading {
    position: sticky;
    z-index: 2;
    padding: 0 6px;
    background: var(--ga-surface);
    color: var(--ga-muted);
    text-align: center;
    white-space: nowrap;
  }
  .map .head .heading {
    top: 0;
  }
  .map .step {
    left: 0;
    align-content: center;
  }
  .map .corner {
    left: 0;
    z-index: 3;
    text-align: left;
  }
  .cell,
  .none {
    position: relative;
    display: grid;
    place-items: center;
    box-sizing: border-box;
    width: 100%;
    height: 100%;
    padding: 0;
    border: 1px solid;
    border-radius: 5px;
    scroll-margin: 32px 16px 16px 112px; /* headings stay in view, on top of cells */
  }
  .cell:hover:not(:disabled) {
    outline: 2px solid var(--ga-accent);
  }
  .cell:is(:hover, :focus-visible) {
    z-index: 1; /* an outline lies on the cells beside it */
  }
  .cell .bars {
    transform: scale(1.3);
  }
  .cell .mark {
    position: absolute;
    bottom: 1px;
    width: 5px;
    height: 5px;
    margin-left: -3px;
    border: 1px solid;
    border-radius: 50%;
    background: var(--ga-surface);
  }
  .cell.lead {
    border: 2px solid;
  }
  .cell.lead .mark {
    background: currentColor;
  }
  .narrow :is(.cell, .none) {
    border-radius: 3px;
  }
  .narrow .cell .bars {
    transform: none;
  }
  .tiny :is(.cell, .none) {
    border-radius: 2px;
  }
  .tiny .cell .bars {
    transform: translateY(3px) scale(0.6);
  }
  :is(.narrow, .tiny) .cell .flag {
    right: 0;
    top: -3px;
    font-size: 11px;
  }
  .tiny .cell .flag {
    font-size: 9px;
    line-height: 12px;
  }
  section:has(.tiny) {
    grid-column: 1 / -1;
  }
  .tiny .head .heading {
    text-align: left;
  }
  .cell .sign {
    font-weight: 700;
    line-height: 1;
  }
  .tiny .cell .sign {
    font-size: 10px;
  }
  #outcomes {
    display: flex;
    flex-wrap: wrap;
    gap: 4px 16px;
    margin-bottom: 8px;
  }
  #outcomes:empty {
    display: none;
  }
  #outcomes .swatch {
    font-size: 11px;
    font-weight: 700;
    line-height: 12px;
  }
  .whole canvas {
    display: block;
    cursor: pointer;
  }
  .cell .flag {
    position: absolute;
    right: 4px;
    top: -2px;
    font-weight: 700;
  }
  .cell.alone {
    border-style: dashed;
  }
  .none {
    border: 1px dashed var(--ga-border);
    color: var(--ga-muted);
  }
  .none.failed {
    border-color: var(--ga-danger);
    color: var(--ga-danger);
  }
  .counts :is(th, td) {
    padding: 3px 8px;
    border-bottom: 1px solid var(--ga-border);
    white-space: nowrap;
    background: var(--ga-surface);
    font-weight: normal;
  }
  .counts thead th {
    max-width: 124px;
    white-space: normal;
    overflow-wrap: anywhere;
    vertical-align: bottom;
    position: sticky;
    top: 0;
    z-index: 1;
    color: var(--ga-muted);
  }
  .counts .totals > * {
    font-weight: 600;
    text-align: right;
  }
  .numeric {
    text-align: right;
  }
  .zero {
    color: var(--ga-muted);
  }
  .swatch {
    display: inline-grid;
    place-items: center;
    width: 22px;
    height: 14px;
    margin-right: 6px;
    border: 1px solid;
    border-radius: 3px;
    vertical-align: -2px;
  }
  .counts button {
    height: 22px;
    min-width: 40px;
    padding: 0 6px;
    justify-content: flex-end;
    color: var(--ga-accent);
    text-decoration: underline;
    text-underline-offset: 3px;
  }
  @media (max-width: 1100px) {
    .page {
      grid-template-columns: minmax(0, 1fr);
    }
  }
</style>`;
