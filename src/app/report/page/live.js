// Reloads the page of a run that goes on, and keeps what the reader has set: place, folds, switches.
(() => {
  'use strict';
  const seconds = Number(document.currentScript.dataset.seconds);
  const key = `tributary ${location.pathname}`;
  const dialog = document.querySelector('dialog');
  const folds = () => [...document.querySelectorAll('details')];
  const switches = () => [...document.querySelectorAll('button[aria-pressed]')];
  const boxes = () => [...document.querySelectorAll('.scroll, .tokens')];

  const keep = () => sessionStorage.setItem(key, JSON.stringify({
    place: [scrollX, scrollY],
    open: folds().map((each) => each.open),
    pressed: switches().map((each) => [each.textContent, each.getAttribute('aria-pressed')]),
    scrolled: boxes().map((each) => [each.scrollLeft, each.scrollTop]),
    theme: document.documentElement.dataset.theme}));

  const restore = (kept) => {
    if (kept.theme !== document.documentElement.dataset.theme) document.querySelector('.theme').click();
    folds().forEach((each, i) => { each.open = kept.open[i] ?? each.open; });
    // What is to be on comes first: of a group, pressing one button releases the others.
    for (const state of ['true', 'false'])
      switches().forEach((each, i) => {
        const [name, pressed] = kept.pressed[i] ?? [];
        if (name === each.textContent && pressed === state && each.getAttribute('aria-pressed') !== state) each.click();
      });
    boxes().forEach((each, i) => { [each.scrollLeft, each.scrollTop] = kept.scrolled[i] ?? [0, 0]; });
    scrollTo({left: kept.place[0], top: kept.place[1], behavior: 'instant'});
  };

  history.scrollRestoration = 'manual';
  const kept = sessionStorage.getItem(key);
  if (kept !== null) restore(JSON.parse(kept));
  // Nothing moves under a reader who looks at a picture or marks text.
  setInterval(() => {
    if (document.hidden || dialog.open || !getSelection().isCollapsed) return;
    keep();
    location.reload();
  }, 1000 * seconds);
})();
