// The panes beside the conversation: the list, which a narrow window hides, and the event log.

const kept = 'parley.log'; // whether a person wants what developers look at (event log, nodes, exact costs), in this browser: 'open'

const $ = (id) => document.getElementById(id);

export class Panes {
  /** log hears whether the event log is shown. */
  constructor(log) {
    this.log = log;
    this.frame = document.querySelector('.panes');
    this.wide = matchMedia('(min-width: 1081px)');
    this.narrow = matchMedia('(max-width: 700px)');
    this.wide.addEventListener('change', () => this.showLog(this.wanted()));
    this.showLog(this.wanted());
    this.develop();
    $('log-toggle').addEventListener('click', () => {
      this.showLog(!this.logShown());
      if (!this.wide.matches) return;
      localStorage.setItem(kept, this.logShown() ? 'open' : 'closed');
      this.develop();
    });
    $('log-close').addEventListener('click', () => {
      this.showLog(false);
      $('log-toggle').focus();
    });
    $('side-toggle').addEventListener('click', () => (this.sideShown() ? this.closeSide() : this.openSide()));
    $('shade').addEventListener('click', () => this.escape());
  }

  /** There is room for the log, and it is wanted. */
  wanted() { return this.wide.matches && localStorage.getItem(kept) === 'open'; }

  develop() { document.body.toggleAttribute('data-dev', localStorage.getItem(kept) === 'open'); }

  logShown() { return !this.frame.classList.contains('no-log'); }

  sideShown() { return this.frame.classList.contains('show-side'); }

  showLog(shown) {
    this.frame.classList.toggle('no-log', !shown);
    $('log-toggle').setAttribute('aria-pressed', String(shown));
    this.log.show(shown);
    this.shade();
  }

  openSide() { this.showSide(this.narrow.matches); }

  closeSide() { this.showSide(false); }

  showSide(shown) {
    this.frame.classList.toggle('show-side', shown);
    $('side-toggle').setAttribute('aria-expanded', String(shown));
    this.shade();
  }

  /** What lies under a pane that floats is out of reach. */
  shade() { $('shade').hidden = !this.sideShown() && (this.wide.matches || !this.logShown()); }

  /** Closes the pane that floats, if there is one. */
  escape() {
    if (this.sideShown()) {
      this.closeSide();
      $('side-toggle').focus();
      return true;
    }
    if (this.wide.matches || !this.logShown()) return false;
    this.showLog(false);
    $('log-toggle').focus();
    return true;
  }
}
