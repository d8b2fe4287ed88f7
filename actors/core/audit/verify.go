package audit

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"parley/proto/auditpb"
)

// An export is lines of JSON: where the chain begins, its rows in order, and where it ends. The first and the last line hold the
// number and hash of the last row that was removed and of the newest one.
const (
	typeBegin = "audit.begin"
	typeEnd   = "audit.end"
)

// edge is the first or the last line of an export.
type edge struct {
	Type     string `json:"type"`
	TenantID string `json:"tenantId"`
	Number   uint64 `json:"seq"`
	Hash     string `json:"hash"`
	Filtered bool   `json:"filtered,omitempty"`
}

// AppendBegin appends the first line of an export. One that is filtered is no whole chain.
func AppendBegin(dst []byte, tenantID string, checkpoint *auditpb.Mark, filtered bool) []byte {
	return appendEdge(dst, edge{typeBegin, tenantID, checkpoint.GetNumber(), hex.EncodeToString(checkpoint.GetHash()), filtered})
}

// AppendEnd appends the last line of an export.
func AppendEnd(dst []byte, tenantID string, last *auditpb.Mark, filtered bool) []byte {
	return appendEdge(dst, edge{typeEnd, tenantID, last.GetNumber(), hex.EncodeToString(last.GetHash()), filtered})
}

func appendEdge(dst []byte, e edge) []byte {
	encoded, err := json.Marshal(e)
	if err != nil {
		return dst // it always marshals
	}
	return append(append(dst, encoded...), '\n')
}

// Verified is what a whole chain was found to be. Who keeps Number and Hash elsewhere sees later that the chain was not made anew.
type Verified struct {
	TenantID string
	Rows     uint64
	First    uint64 // number of the first row; earlier ones were removed when they had become old
	Number   uint64 // of the newest row
	Hash     string
}

// maxLine bounds a line of an export; rows are far smaller.
const maxLine = 1 << 20

// ErrFiltered says that an export lacks rows because it was asked for only some.
var ErrFiltered = errors.New("the export was filtered: only a whole one can be verified")

// Verify reads an export and fails where it is not a whole chain: with an altered, removed, inserted or moved row. With an anchor,
// the number and hash of a row seen earlier, that row must be in the chain, or have been removed since by age.
func Verify(from io.Reader, anchor map[uint64]string) (Verified, error) {
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	v := verifier{anchor: anchor}
	for number := 1; lines.Scan(); number++ {
		if err := v.line(lines.Bytes()); err != nil {
			return v.found, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return v.found, err
	}
	if !v.ended {
		return v.found, errors.New("the export has no end: rows were cut off")
	}
	for number := range anchor {
		if number > v.found.Number {
			return v.found, fmt.Errorf("row %d, which was seen earlier, is missing: the newest row is %d", number, v.found.Number)
		}
	}
	return v.found, nil
}

type verifier struct {
	found        Verified
	anchor       map[uint64]string
	begun, ended bool
}

func (v *verifier) line(text []byte) error {
	var all map[string]any
	if err := decode(text, &all); err != nil {
		return err
	}
	if !bytes.Equal(canonical(all), bytes.TrimSpace(text)) && all["type"] == nil {
		return errors.New("the row is not in its canonical form")
	}
	kind, _ := all["type"].(string)
	switch {
	case v.ended:
		return errors.New("something follows the end of the export")
	case kind != "":
		return v.edge(kind, text)
	case !v.begun:
		return errors.New("the export does not begin with " + typeBegin)
	}
	return v.row(all)
}

func (v *verifier) edge(kind string, text []byte) error {
	var e edge
	if err := json.Unmarshal(text, &e); err != nil {
		return err
	}
	switch {
	case e.Filtered:
		return ErrFiltered
	case kind == typeBegin && !v.begun:
		v.begun = true
		v.found.TenantID, v.found.First, v.found.Number, v.found.Hash = e.TenantID, e.Number+1, e.Number, e.Hash
		return v.anchored()
	case kind == typeEnd && v.begun:
		v.ended = true
		if e.Number != v.found.Number || e.Hash != v.found.Hash || e.TenantID != v.found.TenantID {
			return fmt.Errorf("the chain ends with row %d, not with row %d: rows were removed or added", v.found.Number, e.Number)
		}
		return nil
	}
	return fmt.Errorf("unexpected line %q", kind)
}

func (v *verifier) row(all map[string]any) error {
	hash, _ := all[memberHash].(string)
	previous, _ := all[memberPrevious].(string)
	number, _ := all[memberNumber].(json.Number)
	tenant, _ := all["tenantId"].(string)
	delete(all, memberHash)
	sum := sha256.Sum256(canonical(all))
	switch {
	case number.String() != fmt.Sprint(v.found.Number+1):
		return fmt.Errorf("row %s follows on row %d", number, v.found.Number)
	case previous != v.found.Hash:
		return fmt.Errorf("row %s does not continue row %d: one of both was replaced", number, v.found.Number)
	case hash != hex.EncodeToString(sum[:]):
		return fmt.Errorf("row %s was altered: its hash is not that of its content", number)
	case tenant != v.found.TenantID:
		return fmt.Errorf("row %s is of tenant %q", number, tenant)
	}
	v.found.Number++
	v.found.Rows++
	v.found.Hash = hash
	return v.anchored()
}

func (v *verifier) anchored() error {
	if want, is := v.anchor[v.found.Number]; is && want != v.found.Hash {
		return fmt.Errorf("row %d is not the one that was seen earlier: the chain was made anew", v.found.Number)
	}
	return nil
}
