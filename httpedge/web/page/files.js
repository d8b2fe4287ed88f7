// Files: chosen or dropped, sent as their own bytes, named in the next message; and taken back from a message.

import { call, content, download, picture, upload } from './stream.js';
import { button, element } from './dom.js';
import { isNew } from './drafts.js';
import { size } from './words.js';

/**
 * The files that wait for the next message of each draft. An item is { name, size, file, record, sent }: record is the
 * server's once it is uploaded, sent the upload under way. Where there is no conversation yet, it waits for that.
 */
export class Attachments {
  constructor(box, { guarded, changed }) {
    this.box = box;
    this.guarded = guarded;
    this.changed = changed; // called with a draft's key and the records of what is uploaded for it
    this.lists = new Map(); // key of a draft -> { key, items }
  }

  /** Shows the files of a draft; those that an earlier page uploaded are given. */
  show(key, records) {
    const items = records.map((record) => ({ name: record.name, size: record.size, record }));
    if (!this.lists.has(key)) this.lists.set(key, { key, items });
    this.shown = this.lists.get(key);
    this.draw();
  }

  /** The draft has another key: its conversation exists now, or was taken back with what was uploaded to it. */
  move(from, to) {
    const list = this.lists.get(from);
    if (!list) return;
    this.lists.delete(from);
    this.lists.set(to, list);
    list.key = to;
    if (!isNew(to)) return;
    list.items = list.items.filter((item) => item.file);
    for (const item of list.items) item.record = item.sent = null;
    this.draw();
    this.tell(list);
  }

  add(chosen) {
    const list = this.shown;
    for (const file of chosen) {
      const item = { name: file.name, size: file.size, file };
      list.items.push(item);
      if (!isNew(list.key)) this.guarded(() => this.send(list, item))();
    }
    this.draw();
  }

  /** Uploads a file. One that the server refuses is no longer waited for. */
  async send(list, item) {
    item.sent ||= upload(list.key, item.file);
    try {
      item.record = await item.sent;
      if (!list.items.includes(item)) await call('DELETE', `/files/${item.record.id}`); // removed meanwhile
    } catch (error) {
      item.sent = null;
      if (error.status >= 400 && error.status < 500) list.items = list.items.filter((other) => other !== item);
      throw error;
    } finally {
      this.draw();
      this.tell(list);
    }
    return item.record;
  }

  /** The ids to send with a draft, once every upload is done. */
  async ids(key) {
    const list = this.lists.get(key);
    const records = await Promise.all((list?.items || []).map((item) => item.record || this.send(list, item)));
    return records.map((record) => record.id);
  }

  /** Forgets files that a message holds now. */
  taken(key, ids) {
    const list = this.lists.get(key);
    if (!list || ids.length === 0) return;
    list.items = list.items.filter((item) => !ids.includes(item.record?.id));
    this.draw();
    this.tell(list);
  }

  async remove(list, item) {
    list.items = list.items.filter((other) => other !== item);
    this.draw();
    this.tell(list);
    if (item.record) await call('DELETE', `/files/${item.record.id}`);
  }

  tell(list) { this.changed(list.key, list.items.map((item) => item.record).filter(Boolean)); }

  draw() {
    const list = this.shown;
    this.box.replaceChildren(...(list?.items || []).map((item) => {
      const chip = element('span', 'chip', `${item.name} (${size(item.size)})${item.sent && !item.record ? ' …' : ''}`);
      if (item.record) chip.dataset.file = item.record.id;
      const bytes = item.file || item.record;
      if (isPicture(item.file?.type || item.record?.mimeType, item.size)) chip.prepend(shownPicture('', item.id ||= {}, () => (item.file ? bytes : content(bytes))));
      const drop = button('×', 'tiny', this.guarded(() => this.remove(list, item)));
      drop.setAttribute('aria-label', 'remove ' + item.name);
      chip.append(drop);
      return chip;
    }));
  }
}

/** Takes the files that are dropped on a pane, or pasted into a text, where they may be attached. */
export function takeFiles(pane, text, may, add) {
  const some = ({ dataTransfer }) => dataTransfer.types.includes('Files');
  pane.addEventListener('dragover', (event) => { if (may() && some(event)) event.preventDefault(); });
  pane.addEventListener('drop', (event) => {
    if (!some(event)) return;
    event.preventDefault(); // a browser would open it in place of the page
    if (may()) add([...event.dataTransfer.files]);
  });
  text.addEventListener('paste', (event) => {
    const files = [...event.clipboardData.files];
    if (files.length === 0 || !may()) return;
    event.preventDefault();
    add(files);
  });
}

const isPicture = (type, size) => /^image\/(png|jpeg|gif|webp)$/.test(type) && size <= 10 << 20;
const pictures = new Map(); // what names a picture -> its address, once it is read
const mostPictures = 40;

/** A picture, read once; blob() gives its bytes. */
function shownPicture(name, key, blob) {
  const image = element('img');
  image.alt = name;
  if (!pictures.has(key)) {
    if (pictures.size >= mostPictures) pictures.delete(pictures.keys().next().value);
    pictures.set(key, Promise.resolve(blob()).then(picture));
  }
  pictures.get(key).then((address) => { image.src = address; }, () => {
    pictures.delete(key);
    image.remove();
  });
  return image;
}

/** The files of a message, to be taken back. Pictures are shown. */
export function fileChips(files, guarded) {
  const box = element('div', 'chips');
  for (const file of files) {
    const take = button(`${file.name} (${size(file.size)})`, 'chip', guarded(() => download(`/files/${file.id}/content`, file.name)));
    take.title = 'Download';
    if (isPicture(file.mimeType, file.size)) {
      take.className = 'chip picture';
      take.replaceChildren(shownPicture(file.name, file.id, () => content(file)));
    }
    take.dataset.file = file.id;
    box.append(take);
  }
  return box;
}
