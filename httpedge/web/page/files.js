// Files: chosen or dropped, sent as their own bytes, named in the next message; and taken back from a message.

import { call, download, upload } from './stream.js';
import { button, element } from './dom.js';

/** The files that wait for the next message. */
export class Attachments {
  constructor(box, { guarded, conversation }) {
    this.box = box;
    this.guarded = guarded;
    this.conversation = conversation;
    this.files = [];
  }

  clear() {
    this.files = [];
    this.box.replaceChildren();
  }

  /** The ids to send, once every upload is done. They stay until the message is accepted. */
  async ids() {
    const done = await Promise.all(this.files);
    return done.filter(Boolean).map((file) => file.id);
  }

  async add(list) {
    const id = await this.conversation();
    for (const file of list) {
      const chip = element('span', 'chip', `${file.name} …`);
      this.box.append(chip);
      const sent = upload(id, file);
      this.files.push(sent.catch(() => null));
      this.guarded(async () => {
        try {
          const record = await sent;
          chip.textContent = `${record.name} (${size(record.size)})`;
          const drop = button('×', 'tiny', this.guarded(async () => {
            chip.remove();
            this.files = this.files.filter((other) => other !== sent);
            await call('DELETE', `/files/${record.id}`);
          }));
          drop.setAttribute('aria-label', 'remove ' + record.name);
          chip.append(drop);
          chip.dataset.file = record.id;
        } catch (error) {
          chip.remove();
          throw error;
        }
      })();
    }
  }
}

export function size(bytes) {
  if (bytes < 1024) return bytes + ' B';
  if (bytes < 1024 * 1024) return (bytes / 1024).toFixed(1) + ' KB';
  return (bytes / 1024 / 1024).toFixed(1) + ' MB';
}

/** The files of a message, to be taken back. */
export function fileChips(files, guarded) {
  const box = element('div', 'chips');
  for (const file of files) {
    const take = button(`${file.name} (${size(file.size)})`, 'chip', guarded(() => download(`/files/${file.id}/content`, file.name)));
    take.title = 'Download';
    take.dataset.file = file.id;
    box.append(take);
  }
  return box;
}
