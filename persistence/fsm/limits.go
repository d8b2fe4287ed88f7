package fsm

import (
	"errors"
	"fmt"
	"slices"

	"parley/persistence/blob"
	"parley/persistence/keys"
	"parley/proto/logpb"
)

// ErrLimit is wrapped by the errors of the Validate functions.
var ErrLimit = errors.New("entry breaks a limit")

// MaxRecord bounds a directory record: every node holds all of them in memory.
const MaxRecord = 1 << 20

// Limits of sums.
const (
	MaxSums   = 4096 // in an entry
	MaxDeltas = 16   // in a sum
	MaxPacked = 4096 // in a pack: a replica applies it at once
)

// Validate checks an append. It is called before proposing, and again when applying.
func Validate(a *logpb.Append) error {
	if err := name("id", a.GetId()); err != nil {
		return err
	}
	for _, item := range a.GetItems() {
		if t := item.GetTable(); t < 1 || t > keys.MaxTable {
			return fmt.Errorf("%w: item table %d", ErrLimit, t)
		}
		if len(item.GetKey()) > keys.MaxTail {
			return fmt.Errorf("%w: item key of %d bytes", ErrLimit, len(item.GetKey()))
		}
	}
	for _, l := range a.GetListings() {
		if err := name("list", l.GetList()); err != nil {
			return err
		}
		if len(l.GetMember()) > keys.MaxTail {
			return fmt.Errorf("%w: list member of %d bytes", ErrLimit, len(l.GetMember()))
		}
	}
	for _, c := range a.GetCounts() {
		if err := name("counter", c.GetName()); err != nil {
			return err
		}
	}
	if err := ValidateSums(a.GetSums()); err != nil {
		return err
	}
	return validateBlobs(a)
}

// ValidateSums checks additions to sums.
func ValidateSums(sums []*logpb.Sum) error {
	if len(sums) > MaxSums {
		return fmt.Errorf("%w: %d sums", ErrLimit, len(sums))
	}
	for _, s := range sums {
		if err := name("name of sums", s.GetName()); err != nil {
			return err
		}
		if n := len(s.GetMember()); n > keys.MaxSum {
			return fmt.Errorf("%w: member of a sum of %d bytes", ErrLimit, n)
		}
		if n := len(s.GetDeltas()); n > MaxDeltas {
			return fmt.Errorf("%w: sum of %d numbers", ErrLimit, n)
		}
	}
	return nil
}

// ValidateTrim checks a removal of old sums: it must remove something, and its bounds must be possible names and
// members.
func ValidateTrim(t *logpb.TrimSums) error {
	if err := name("prefix of sums", t.GetPrefix()); err != nil {
		return err
	}
	if n := len(t.GetBefore()); n == 0 || n > keys.MaxSum {
		return fmt.Errorf("%w: members of sums before one of %d bytes", ErrLimit, n)
	}
	return nil
}

// ValidatePack checks a move of rows into a pack.
func ValidatePack(p *logpb.PackSums) error {
	if err := name("name of sums", p.GetName()); err != nil {
		return err
	}
	if n := len(p.GetTo()); n > keys.MaxSum || p.GetFrom() >= p.GetTo() {
		return fmt.Errorf("%w: a pack of sums from %q to %q", ErrLimit, p.GetFrom(), p.GetTo())
	}
	return nil
}

func validateBlobs(a *logpb.Append) error {
	for i, c := range a.GetBlobs() {
		if err := validateChange(c); err != nil {
			return err
		}
		if a.GetDeleteEntity() && !c.GetDelete() {
			return fmt.Errorf("%w: blob %s for an entity that goes", ErrLimit, c.GetId())
		}
		if slices.ContainsFunc(a.GetBlobs()[:i], func(other *logpb.BlobChange) bool { return other.GetId() == c.GetId() }) {
			return fmt.Errorf("%w: blob %s twice", ErrLimit, c.GetId())
		}
	}
	return nil
}

func validateChange(c *logpb.BlobChange) error {
	if err := name("blob", c.GetId()); err != nil {
		return err
	}
	if err := blob.ValidateChange(c); err != nil {
		return fmt.Errorf("%w: %w", ErrLimit, err)
	}
	return nil
}

// ValidateBlob checks a commit or removal of a blob.
func ValidateBlob(c *logpb.BlobChange) error {
	if c.GetOwner() != "" {
		return fmt.Errorf("%w: blob %s of an entity is committed by it", ErrLimit, c.GetId())
	}
	return validateChange(c)
}

// ValidateChunk checks a piece of a blob.
func ValidateChunk(c *logpb.BlobChunk) error {
	if err := name("blob", c.GetId()); err != nil {
		return err
	}
	if err := blob.ValidateChunk(c); err != nil {
		return fmt.Errorf("%w: %w", ErrLimit, err)
	}
	return nil
}

// ValidatePut checks a directory record.
func ValidatePut(p *logpb.Put) error {
	if err := recordName(p.GetCollection(), p.GetKey()); err != nil {
		return err
	}
	if guard := p.GetGuard(); guard != nil {
		if err := recordName(guard.GetCollection(), guard.GetKey()); err != nil {
			return err
		}
		if guard.GetCollection() == p.GetCollection() && guard.GetKey() == p.GetKey() {
			return fmt.Errorf("%w: a record that is its own guard", ErrLimit)
		}
	}
	if n := len(p.GetValue()); n > MaxRecord {
		return fmt.Errorf("%w: record of %d bytes", ErrLimit, n)
	}
	return nil
}

func recordName(collection, key string) error {
	if err := name("collection", collection); err != nil {
		return err
	}
	if n := len(key); n == 0 || n > keys.MaxTail {
		return fmt.Errorf("%w: record key of %d bytes", ErrLimit, n)
	}
	return nil
}

func name(what, s string) error {
	if len(s) == 0 || len(s) > keys.MaxName {
		return fmt.Errorf("%w: %s of %d bytes", ErrLimit, what, len(s))
	}
	return nil
}

// valid is for entries that have been committed. This release never proposes one that breaks a limit; such an entry
// writes nothing and its outcome stays unspecified, on every replica alike.
func valid(err error) bool { return err == nil }
