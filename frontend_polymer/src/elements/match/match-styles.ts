import { html } from '@polymer/polymer/polymer-element.js';

/** The looks of `ga-match`. */
export const matchStyles = html`<style>
  :host {
    display: flex;
    flex-direction: column;
    flex: 1;
    min-width: 0;
    min-height: 0;
    overflow: auto;
  }
  .refusal {
    flex: 1;
    margin: 16px;
    color: var(--ga-muted);
  }
  .columns {
    flex: 1;
    /* Room for two rows of choices and a few of the preview; what is lower scrolls as a whole. */
    min-height: 110px;
    display: grid;
    grid-auto-flow: column;
    grid-auto-columns: minmax(0, 1fr);
  }
  section {
    display: flex;
    flex-direction: column;
    min-height: 0;
    padding: 6px 12px;
  }
  section + section {
    border-left: 1px solid var(--ga-border);
  }
  header {
    display: flex;
    align-items: center;
    justify-content: space-between;
  }
  h3 {
    font: 600 13px/20px var(--ga-font);
    margin: 0;
  }
  .candidates,
  #preview {
    flex: 1;
    min-height: 0;
    overflow: auto;
  }
  .candidates label {
    display: grid;
    grid-template-columns: auto minmax(0, auto) minmax(0, 1fr);
    gap: 8px;
    align-items: center;
    padding: 2px 0;
  }
  input[type='radio'],
  input[type='checkbox'] {
    width: 14px;
    height: 14px;
    margin: 0;
    accent-color: var(--ga-accent);
  }
  .options {
    display: flex;
    flex-wrap: wrap;
    gap: 4px 12px;
    align-items: center;
    padding: 2px 0;
  }
  .options label {
    display: flex;
    gap: 6px;
    align-items: center;
  }
  .who {
    display: flex;
    gap: 8px;
  }
  #author {
    width: 120px;
  }
  #reason {
    width: 200px;
  }
  p {
    margin: 4px 0;
  }
  ul {
    margin: 0;
    padding: 0;
    list-style: none;
  }
  li {
    display: flex;
    gap: 8px;
    align-items: center;
    padding: 1px 0;
  }
  .sign {
    width: 10px;
    font-weight: 700;
  }
  .conflict {
    color: var(--ga-danger);
  }
  .grade {
    padding: 0 8px;
    border: 1px solid;
    border-radius: 10px;
    white-space: nowrap;
  }
  footer {
    position: sticky; /* what can be done stays in sight where the rest scrolls */
    bottom: 0;
    background: var(--ga-surface);
    flex: none;
    display: flex;
    flex-wrap: wrap;
    gap: 8px;
    align-items: center;
    padding: 4px 12px;
    border-top: 1px solid var(--ga-border);
  }
  a {
    color: var(--ga-accent);
    cursor: pointer;
    text-decoration: underline;
    text-underline-offset: 3px;
  }
  #outcome {
    flex: 1;
    min-width: 200px;
    text-align: right;
  }
</style>`;
