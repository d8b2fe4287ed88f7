package turn

import (
	"container/list"
	"sync"

	"parley/actors/core/letters"
)

// maxTexts bounds the texts of documents that are kept, in bytes. Each counts for minText beside its length.
const (
	maxTexts = 32 << 20
	minText  = 512
)

// cutMargin is how many bytes below its limit a text may end that was cut.
const cutMargin = 1 << 10

// texts caches the texts of recently read documents: a document is needed again for every turn whose window contains it, and
// extraction may take seconds, most of all for documents that fail. Files never change. Safe for concurrent use.
type texts struct {
	mu struct {
		sync.Mutex
		known map[string]*list.Element // by file id
		order *list.List               // of *docText, newest use first
		size  int
	}
}

// docText is the requested part of a document's text, or the reason why it has none.
type docText struct {
	id, text, problem string
	limit             int // the text is whole when it is clearly shorter
}

func newTexts() *texts {
	t := &texts{}
	t.mu.known, t.mu.order = make(map[string]*list.Element), list.New()
	return t
}

// find returns the text up to a limit, or why there is none; false when it is not known that far.
func (t *texts) find(id string, limit int) (docText, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	element := t.mu.known[id]
	if element == nil {
		return docText{}, false
	}
	known, _ := element.Value.(*docText)
	if known.problem == "" && known.limit < limit && len(known.text) > known.limit-cutMargin {
		return docText{}, false
	}
	t.mu.order.MoveToFront(element)
	found := *known
	found.text = letters.Head(known.text, limit)
	return found, true
}

func (t *texts) keep(one docText) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if element := t.mu.known[one.id]; element != nil {
		t.dropLocked(element)
	}
	t.mu.known[one.id] = t.mu.order.PushFront(&one)
	t.mu.size += minText + len(one.text)
	for t.mu.size > maxTexts {
		t.dropLocked(t.mu.order.Back())
	}
}

func (t *texts) bytes() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return float64(t.mu.size)
}

func (t *texts) dropLocked(element *list.Element) {
	known, _ := t.mu.order.Remove(element).(*docText)
	delete(t.mu.known, known.id)
	t.mu.size -= minText + len(known.text)
}
