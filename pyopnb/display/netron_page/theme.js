// Tells the frame beside it, in a trusted output, whether the notebook has a dark theme.
(() => {
  'use strict';
  const frame = document.currentScript && document.currentScript.parentElement.querySelector('iframe');
  if (!frame) {
    return;
  }
  const post = () => {
    const {jpThemeLight, vscodeThemeKind} = document.body.dataset;
    const dark = jpThemeLight === 'false' || /dark/.test(vscodeThemeKind || '') ||
      document.documentElement.getAttribute('theme') === 'dark';
    if (dark || jpThemeLight === 'true') {
      frame.contentWindow?.postMessage({pyopnb: 'netron', do: 'paint', dark}, '*');
    }
  };
  window.addEventListener('message', ({source, data}) => {
    if (source && source === frame.contentWindow && data && data.pyopnb === 'netron' && data.do === 'ask') {
      post();
    }
  });
  new MutationObserver(post).observe(document.body, {attributes: true, attributeFilter: ['data-jp-theme-light']});
})();
