import { html } from '@polymer/polymer/polymer-element.js';

/** Colours, spacing and type of the whole viewer; `ga-app` includes them, the rest inherits. */
export const tokens = html`<style>
  :host {
    --ga-font:
      system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Noto Sans CJK SC', 'PingFang SC',
      'Microsoft YaHei', 'Helvetica Neue', Arial, sans-serif;
    --ga-mono:
      ui-monospace, 'SF Mono', 'Cascadia Mono', Menlo, Consolas, 'DejaVu Sans Mono',
      'Noto Sans Mono CJK SC', monospace;
    --ga-background: #f3f5f8;
    --ga-surface: #ffffff;
    --ga-raised: #f8f9fb;
    --ga-hover: #e9edf3;
    --ga-border: #d8dee6;
    --ga-control-border: #8a94a2;
    --ga-text: #1a2029;
    --ga-muted: #566170;
    --ga-accent: #1d5fd1;
    --ga-on-accent: #ffffff;
    --ga-accent-soft: #e3edfd;
    --ga-danger: #b3261e;
    --ga-danger-soft: #fdebe9;
    --ga-shadow: 0 1px 2px rgb(16 24 40 / 8%), 0 4px 16px rgb(16 24 40 / 10%);
    color-scheme: light;
  }
  :host([theme='dark']) {
    --ga-background: #12161b;
    --ga-surface: #1a1f26;
    --ga-raised: #212730;
    --ga-hover: #2b333d;
    --ga-border: #343d49;
    --ga-control-border: #76828f;
    --ga-text: #e7ebf0;
    --ga-muted: #a3afbd;
    --ga-accent: #8ab4f8;
    --ga-on-accent: #0d1b30;
    --ga-accent-soft: #22334d;
    --ga-danger: #ff8a80;
    --ga-danger-soft: #3d2422;
    --ga-shadow: 0 1px 2px rgb(0 0 0 / 40%), 0 4px 16px rgb(0 0 0 / 45%);
    color-scheme: dark;
  }
</style>`;

/** Controls that look alike everywhere. */
export const controls = html`<style>
  :host {
    font: 13px/20px var(--ga-font);
    color: var(--ga-text);
    box-sizing: border-box;
  }
  :host([hidden]),
  [hidden] {
    display: none !important;
  }
  *,
  *::before,
  *::after {
    box-sizing: inherit;
  }
  button,
  select,
  input {
    font: inherit;
    color: inherit;
    height: 28px;
    margin: 0;
    border: 1px solid var(--ga-border);
    border-radius: 6px;
    background: var(--ga-surface);
  }
  select,
  input {
    border-color: var(--ga-control-border);
    padding: 0 8px;
  }
  select:disabled,
  button:disabled {
    opacity: 0.5;
  }
  button {
    display: inline-flex;
    align-items: center;
    justify-content: center;
    gap: 6px;
    padding: 0 10px;
    white-space: nowrap;
    cursor: pointer;
  }
  button:disabled {
    cursor: default;
  }
  button:hover:not(:disabled) {
    background: var(--ga-hover);
  }
  button.icon {
    width: 28px;
    padding: 0;
    flex: none;
  }
  button.plain {
    border-color: transparent;
    background: transparent;
  }
  button.plain:hover:not(:disabled) {
    background: var(--ga-hover);
  }
  button.primary {
    background: var(--ga-accent);
    border-color: var(--ga-accent);
    color: var(--ga-on-accent);
  }
  button.primary:hover {
    background: var(--ga-accent);
    filter: brightness(1.08);
  }
  button[aria-pressed='true'] {
    background: var(--ga-accent-soft);
    border-color: var(--ga-accent);
    color: var(--ga-accent);
  }
  :focus-visible {
    outline: 2px solid var(--ga-accent);
    outline-offset: 1px;
  }
  .muted {
    color: var(--ga-muted);
  }
  .mono {
    font-family: var(--ga-mono);
    font-size: 12px;
  }
  .cut {
    overflow: hidden;
    text-overflow: ellipsis;
    white-space: nowrap;
    min-width: 0;
  }
  .bars {
    display: inline-block;
    width: calc(var(--bars) * 4px - 1px);
    height: 10px;
    background: repeating-linear-gradient(90deg, currentColor 0 3px, transparent 3px 4px);
    clip-path: polygon(0 75%, 100% calc(100% - var(--bars) * 25%), 100% 100%, 0 100%);
  }
  /* Backgrounds go where colours are forced; how bad something is must stay. */
  @media (forced-colors: active) {
    .bars {
      forced-color-adjust: none;
      color: CanvasText;
    }
  }
  .visually-hidden {
    position: absolute;
    width: 1px;
    height: 1px;
    margin: -1px;
    overflow: hidden;
    clip-path: inset(50%);
    white-space: nowrap;
  }
</style>`;
