// Who moves a view that grows at its end: the reader. It follows the end until the reader takes the smallest step up, and again
// once they go to the end, by themselves or by the button. Nothing else on the page moves it.

/** Whether a view follows its end, by what is heard of it. A place is { top, height, client } of the scrolled box. */
export class Following {
  constructor() {
    this.follows = true;
    this.place = { top: 0, height: 0, client: 0 };
  }

  /** How much lies below a place. */
  static below({ top, height, client }) { return height - client - top; }

  /** The view was put somewhere, or what is in it changed. */
  put(place) { this.place = place; }

  /** The view was scrolled. A browser also does so when the content shrinks or the box grows: that is nobody's step. */
  scrolled(place) {
    const { top, height, client } = this.place;
    this.place = place;
    const atEnd = Following.below(place) <= 1;
    if (atEnd && place.top > top) this.follows = true;
    if (!atEnd && place.top < top && place.height >= height && place.client === client) this.follows = false;
  }

  /** The reader turns to what is above. */
  up() { if (this.place.top > 0) this.follows = false; }

  /** The reader turns to what is below, where nothing more is. */
  down() { if (Following.below(this.place) <= 1) this.follows = true; }
}

const keysUp = ['ArrowUp', 'PageUp', 'Home'];

/** Whether what was touched, inside the box, has room of its own to scroll up in. */
function takesUp(node, box) {
  for (; node && node !== box; node = node.parentElement) {
    if (node.scrollTop > 0) return true;
  }
  return false;
}

/** The scrolled box of a page: content is what grows in it, toEnd the button, if any, that brings back to the end. */
export class Scroll {
  constructor(box, content, toEnd) {
    Object.assign(this, { box, content, toEnd });
    this.state = new Following();
    let touched = 0;
    const heard = (type, take) => box.addEventListener(type, (event) => { take(event); this.show(); }, { passive: true });
    heard('scroll', () => {
      this.state.scrolled(this.place());
      if (this.state.follows && Following.below(this.state.place) > 1) this.keep(); // the browser's step, not the reader's
    });
    heard('wheel', ({ deltaY, ctrlKey, target }) => {
      if (deltaY > 0) this.state.down();
      else if (deltaY < 0 && !ctrlKey && !takesUp(target, box)) this.state.up();
    });
    heard('touchstart', ({ touches }) => { touched = touches[0].clientY; });
    heard('touchmove', ({ touches, target }) => {
      if (touches[0].clientY > touched && !takesUp(target, box)) this.state.up();
      touched = touches[0].clientY;
    });
    heard('keydown', ({ key, shiftKey, target }) => {
      if (target.matches('input, textarea, select')) return;
      if (keysUp.includes(key) || (key === ' ' && shiftKey)) this.state.up();
    });
    toEnd?.addEventListener('click', () => {
      box.focus({ preventScroll: true }); // the button goes
      this.follow();
    });
    // After layout and before painting: the end is kept without a layout of its own.
    // What comes into sight there may get another size at once, which is not told in the same frame: looked at in the next one.
    const observer = new ResizeObserver(() => {
      this.keep();
      this.again ||= requestAnimationFrame(() => {
        this.again = 0;
        this.keep();
      });
    });
    observer.observe(box);
    observer.observe(content);
  }

  place() {
    const { scrollTop: top, scrollHeight: height, clientHeight: client } = this.box;
    return { top, height, client };
  }

  keep() {
    if (this.state.follows) this.box.scrollTop = this.box.scrollHeight;
    this.state.put(this.place());
    this.show();
  }

  show() {
    this.box.classList.toggle('follows', this.state.follows);
    if (this.toEnd) this.toEnd.hidden = this.state.follows || Following.below(this.state.place) <= 1;
  }

  /** Goes to the end, and stays there until the reader turns up. */
  follow() {
    this.state.follows = true;
    this.keep();
  }

  /** Goes to a node, and stays there. */
  reveal(node) {
    this.state.follows = false;
    node?.scrollIntoView({ block: 'start', behavior: 'instant' });
    this.state.put(this.place());
    this.show();
  }

  /** Changes what is above a node that is being read: it stays where it is. */
  around(node, change) {
    const at = () => node.getBoundingClientRect().top;
    const before = at();
    change();
    this.state.follows = false;
    this.box.scrollTop += at() - before;
    this.state.put(this.place());
    this.show();
  }
}
