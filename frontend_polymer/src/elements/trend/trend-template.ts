import { html } from '@polymer/polymer/polymer-element.js';

import { lossStyles } from '../parts/loss-curve';
import '../parts/ga-choices';
import { controls } from '../parts/styles';

/** How the page looks. */
export const trendStyles = html`${controls}${lossStyles}
  <style>
    dialog {
      width: 100vw;
      height: 100vh;
      max-width: none;
      max-height: none;
      padding: 0;
      border: none;
      background: var(--ga-surface);
      color: var(--ga-text);
    }
    dialog::backdrop {
      background: rgb(0 0 0 / 40%);
    }
    .page {
      display: flex;
      flex-direction: column;
      gap: 6px;
      height: 100%;
      padding: 8px 14px;
    }
    header,
    .controls,
    .links {
      display: flex;
      flex-wrap: wrap;
      align-items: center;
      gap: 6px 14px;
    }
    header {
      justify-content: space-between;
    }
    h1 {
      font: 600 16px/24px var(--ga-font);
      margin: 0;
    }
    p {
      margin: 0;
      color: var(--ga-muted);
    }
    label {
      display: flex;
      align-items: center;
      gap: 6px;
    }
    select {
      max-width: 300px;
    }
    .map {
      position: relative;
      flex: 1;
      min-height: 120px;
      overflow-y: auto;
      border: 1px solid var(--ga-border);
      border-radius: 8px;
    }
    canvas {
      position: sticky;
      top: 0;
      display: block;
      width: 100%;
      outline-offset: -2px;
    }
    .columns {
      display: flex;
      justify-content: space-between;
      margin: -6px 0 0;
      padding-left: 400px;
      color: var(--ga-muted);
      font-variant-numeric: tabular-nums;
    }
    pre {
      margin: 0;
      font: 12px var(--ga-mono);
    }
    #value {
      min-height: 20px;
    }
    .links {
      min-height: 36px;
    }
    .curve {
      color: var(--ga-accent);
      min-height: 150px;
    }
    /* Until a value is chosen, rows have the room. */
    :is(#value, .links, .curve, #loss):empty {
      display: none;
    }
  </style>`;

/** The button, and what the page holds. */
export const trendParts = html`<button
    id="open"
    class="icon plain"
    title="[[text.trend.open]]"
    aria-label="[[text.trend.open]]"
    on-click="open"
  >
    <ga-icon name="trend"></ga-icon>
  </button>
  <dialog id="dialog" aria-labelledby="title" on-close="_closed">
    <div class="page">
      <header>
        <h1 id="title">[[text.trend.title]]</h1>
        <button
          id="close"
          class="icon plain"
          title="[[text.help.close]]"
          aria-label="[[text.help.close]]"
          on-click="close"
        >
          <ga-icon name="clear"></ga-icon>
        </button>
      </header>
      <ga-choices></ga-choices>
      <p id="problem" role="alert" hidden$="[[!problem]]">[[problem]]</p>
      <div id="none" hidden$="[[!isEmpty]]">
        <p>[[text.trend.none]]</p>
        <pre>msprobe-build trend RUN -o LOGDIR</pre>
      </div>
      <div class="controls" hidden$="[[isEmpty]]">
        <label>[[text.trend.file]]<select id="run" on-change="_chosen"></select></label>
        <label>[[text.trend.other]]<select id="other" on-change="_changed"></select></label>
        <label>[[text.trend.statistic]]<select id="statistic" on-change="_changed"></select></label>
        <label>[[text.trend.fixed]]<select id="fixed" on-change="_narrowed"></select></label>
        <label>[[text.trend.at]]<select id="at" on-change="_changed"></select></label>
        <label>[[text.trend.kind]]<select id="kind" on-change="_narrowed"></select></label>
        <label>[[text.trend.order]]<select id="order" on-change="_changed"></select></label>
        <label>[[text.trend.filter]]<input id="filter" type="search" on-input="_narrowed" /></label>
        <button id="reset" on-click="_reset">[[text.trend.reset]]</button>
      </div>
      <p hidden$="[[isEmpty]]">[[hint]]</p>
      <div id="loss"></div>
      <div id="map" class="map" hidden$="[[isEmpty]]" on-scroll="_scrolled">
        <canvas
          id="canvas"
          tabindex="0"
          role="img"
          aria-label="[[text.trend.map]]"
          on-click="_pick"
          on-wheel="_wheel"
          on-keydown="_key"
        ></canvas>
        <div id="space"></div>
      </div>
      <div class="columns" hidden$="[[isEmpty]]">
        <span id="first"></span><span id="count"></span><span id="last"></span>
      </div>
      <p id="value" role="status"></p>
      <div id="links" class="links"></div>
      <div id="curve" class="curve" hidden$="[[isEmpty]]"></div>
    </div>
  </dialog>`;
