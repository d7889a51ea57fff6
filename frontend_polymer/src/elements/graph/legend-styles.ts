import { html } from '@polymer/polymer/polymer-element.js';

export const legendStyles = html`<style>
  :host {
    display: flex;
    align-items: center;
    flex-wrap: wrap;
    gap: 0 4px;
    min-height: 28px;
    flex: none;
    padding: 0 8px;
    background: var(--ga-surface);
    border-top: 1px solid var(--ga-border);
  }
  button .swatch {
    width: 22px;
    height: 14px;
    border-radius: 3px;
    border: 1px solid;
    flex: none;
    display: grid;
    place-items: center;
  }
  button .swatch.dashed {
    border-style: dashed;
  }
  button .swatch.round {
    border-radius: 7px;
  }
  button {
    height: 24px;
    padding: 0 8px;
    font-variant-numeric: tabular-nums;
  }
  button:disabled {
    opacity: 0.65;
  }
  .kind {
    margin-left: 8px;
    padding-left: 12px;
    border-left: 1px solid var(--ga-border);
    white-space: nowrap;
  }
  button {
    position: relative; /* what is hidden visually must not widen the page */
  }
  .count {
    font-weight: 600;
  }
  .short {
    display: none;
  }
  #colours {
    height: 22px;
    padding: 0 2px;
    max-width: 150px;
  }
  /* There every button has a border. */
  @media (forced-colors: active) {
    :host {
      gap: 2px 6px;
    }
    /* They explain the canvas, which keeps its colours. */
    button .swatch,
    button .swatch .bars {
      forced-color-adjust: none;
    }
    button .swatch .bars {
      color: inherit;
    }
  }
  .waiting {
    flex: 1 0 100%;
    padding: 0 8px;
    font-size: 12px;
    line-height: 18px;
  }
  .waiting:empty {
    display: none;
  }
  button .swatch.near-zero {
    border-color: var(--ga-grade-3-stroke);
    background: repeating-linear-gradient(
      -45deg,
      var(--ga-grade-3-fill) 0 3px,
      var(--ga-surface) 3px 6px
    );
  }
  button .swatch.hidden {
    border-color: var(--ga-grade-1-stroke);
    background: linear-gradient(
      to bottom left,
      var(--ga-grade-5-solid) 30%,
      var(--ga-grade-1-fill) 32%
    );
  }
  .total {
    margin-left: auto;
    padding: 0 8px;
    white-space: nowrap;
  }
  @media (max-width: 1500px) {
    .range {
      display: none;
    }
  }
  @media (max-width: 1800px) {
    /* Grades that share the line with overflow levels. */
    button:has(~ .kind:not([hidden])) .range {
      display: none;
    }
  }
  @media (max-width: 1400px) {
    :host {
      gap: 0;
    }
    button {
      gap: 4px;
      padding: 0 5px;
    }
    .kind {
      margin-left: 2px;
      padding-left: 8px;
    }
    /* Grades that share the line with overflow levels: bars and tooltips name them. */
    .kind:not([hidden]) ~ .total {
      display: none;
    }
    #colours:has(~ .kind:not([hidden])) {
      max-width: 108px;
    }
    .kind:not([hidden]) ~ button,
    button:has(~ .kind:not([hidden])) {
      padding: 0 4px;
    }
    button.drawn:has(~ .kind:not([hidden])) .name {
      position: absolute;
      width: 1px;
      overflow: hidden;
      clip-path: inset(50%);
    }
    .kind:not([hidden]) ~ button .count,
    button:has(~ .kind:not([hidden])) .count {
      display: none;
    }
    .kind:not([hidden]) ~ button .short,
    button:has(~ .kind:not([hidden])) .short {
      display: inline;
    }
    /* What nothing has, where the line is full. */
    button.spare {
      display: none;
    }
    #colours {
      max-width: 140px;
    }
  }
</style>`;
