package persistence

import "fmt"

// RaiseLevel notes durably, in the identity file, that what is written from now on may make use of a feature level. It never
// lowers it. The directory's format rises with it, so that releases that do not look at the level refuse the directory, too.
func (s *Store) RaiseLevel(level uint32) error {
	s.life.mu.Lock()
	defer s.life.mu.Unlock()
	switch {
	case level < s.life.level || level == s.life.level && s.life.format == FormatAt(level):
		return nil
	case s.life.stopped:
		return ErrStopped
	}
	id := s.identity
	id.Level, id.Format = level, FormatAt(level)
	draft, final := s.opts.FS.PathJoin(s.opts.Dir, identityLevel), s.opts.FS.PathJoin(s.opts.Dir, identityName)
	err := writeFile(s.opts.FS, draft, encodeIdentity(id))
	if err == nil {
		err = s.opts.FS.Rename(draft, final)
	}
	if err == nil {
		err = syncDir(s.opts.FS, s.opts.Dir)
	}
	if err != nil {
		return fmt.Errorf("note the feature level: %w", err)
	}
	s.life.level, s.life.format = id.Level, id.Format
	return nil
}
