package mailer

import (
	"context"
	"errors"
	"fmt"
	"net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
)

// Folder keeps messages as files, one each, named by time and id. It is for servers without a mail server: who reads the folder reads
// links that let somebody in, so only the server's user can.
type Folder struct {
	dir  string
	from *mail.Address
	most int
	mu   sync.Mutex
}

// NewFolder returns what keeps the newest so many messages in a folder, which it creates with the first one.
func NewFolder(dir string, from *mail.Address, most int) (*Folder, error) {
	if from == nil || most < 1 {
		return nil, errors.New("mailer: a folder needs a sender and room")
	}
	return &Folder{dir: dir, from: from, most: most}, nil
}

// suffix ends the names of messages; a file without it is being written.
const suffix = ".eml"

// Send writes a message. The same one again replaces it.
func (f *Folder) Send(_ context.Context, m Message) error {
	message, err := build(f.from, m)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err = os.MkdirAll(f.dir, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(f.dir, ".new-*")
	if err != nil {
		return err
	}
	_, err = message.WriteTo(file)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		name := m.At.UTC().Format("20060102T150405.000Z-") + filepath.Base(m.ID) + suffix
		err = os.Rename(file.Name(), filepath.Join(f.dir, name))
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return f.trim()
}

// trim removes the oldest messages above what may be kept, and what a crash has left unfinished.
func (f *Folder) trim() error {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return err
	}
	var names []string
	for _, entry := range entries {
		switch name := entry.Name(); {
		case strings.HasPrefix(name, ".new-"):
			if err = os.Remove(filepath.Join(f.dir, name)); err != nil {
				return fmt.Errorf("tidy the outbox: %w", err)
			}
		case strings.HasSuffix(name, suffix):
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for len(names) > f.most {
		if err = os.Remove(filepath.Join(f.dir, names[0])); err != nil {
			return fmt.Errorf("tidy the outbox: %w", err)
		}
		names = names[1:]
	}
	return nil
}
