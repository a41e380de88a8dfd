// Uses the system's choice of light or dark until the user presses the button.
(() => {
  'use strict';
  const root = document.documentElement;
  const themeButton = document.querySelector('.theme');
  const setTheme = (theme) => {
    root.dataset.theme = theme;
    themeButton.textContent = theme === 'dark' ? 'Light' : 'Dark';
  };
  const systemTheme = window.matchMedia('(prefers-color-scheme: dark)');
  setTheme(systemTheme.matches ? 'dark' : 'light');
  systemTheme.addEventListener('change', (event) => setTheme(event.matches ? 'dark' : 'light'));
  themeButton.addEventListener('click', () => setTheme(root.dataset.theme === 'dark' ? 'light' : 'dark'));
})();
