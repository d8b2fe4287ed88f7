// Light, dark, or as the system is: before anything is drawn. The console keeps it under the same name.
try {
  document.documentElement.dataset.theme = localStorage.getItem('parley.theme') || 'auto';
} catch { /* nothing is kept here */ }
