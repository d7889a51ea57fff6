import { html } from '@polymer/polymer/polymer-element.js';

export const lineStyles = html`<style>
  :host {
    display: flex;
    align-items: center;
    gap: 4px;
    flex: 1 1 0;
    min-width: 0;
    padding-left: 4px;
    position: relative;
  }
  .little {
    display: flex;
    align-items: center;
    gap: 6px;
    flex: 0 1 auto;
    min-width: 0;
    padding: 2px 8px;
    border-radius: 6px;
    background: var(--ga-danger-soft);
    color: var(--ga-danger);
  }
  #full {
    flex: 1 1 auto;
    min-width: 30%;
    justify-content: flex-start;
    padding: 0 4px;
    text-align: left;
  }
  .sentence {
    flex: 0 1 auto;
  }
  .chip {
    flex: none;
    padding: 0 8px;
    border: 1px solid var(--ga-border);
    border-radius: 10px;
    font-weight: 600;
    line-height: 20px;
  }
  .chip[data-conclusion='fault'] {
    background: var(--ga-grade-13-fill);
    color: var(--ga-grade-13-text);
    border-color: var(--ga-grade-13-stroke);
  }
  .chip[data-conclusion='clean'] {
    background: var(--ga-grade-11-fill);
    color: var(--ga-grade-11-text);
    border-color: var(--ga-grade-11-stroke);
  }
  .chip[data-conclusion='undecided'] {
    background: var(--ga-grade-14-fill);
    color: var(--ga-grade-14-text);
    border-color: var(--ga-grade-14-stroke);
  }
  #card {
    position: absolute;
    z-index: 14;
    top: 34px;
    left: 8px;
    width: min(1000px, calc(100vw - 16px));
    max-height: 70vh;
    overflow: auto;
    padding: 12px 16px;
    border: 1px solid var(--ga-border);
    border-radius: 10px;
    background: var(--ga-surface);
    box-shadow: var(--ga-shadow);
  }
  button.icon {
    height: 26px;
    width: 24px;
  }
  .walk {
    display: flex;
    align-items: center;
    flex: none;
    padding-left: 4px;
    font-variant-numeric: tabular-nums;
  }
  /* The keys e and E are still there. */
  @media (max-width: 1400px) {
    .errors {
      display: none;
    }
  }
  @media (max-width: 760px) {
    :host {
      flex: 1 0 100%;
      flex-wrap: wrap;
    }
    #full {
      flex-basis: 100%;
      height: auto;
      min-height: 28px;
      white-space: normal;
    }
    .sentence {
      white-space: normal;
      overflow-wrap: anywhere;
    }
  }
</style>`;
