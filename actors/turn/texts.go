package turn

import (
	"container/list"
	"sync"

	"parley/actors/turn/model"
)

// maxTexts bounds the texts of documents that are kept, in bytes.
const maxTexts = 32 << 20

// textOverhead stands for what a text takes beside itself: there are documents without any.
const textOverhead = 256

// cutMargin is how many bytes below its limit a text may end that was cut.
const cutMargin = 1 << 10

// texts keeps the texts of the documents that were read last: a document of a conversation is read again for every turn
// in whose window it is, and reading one may take seconds. Files never change. Safe for concurrent use.
type texts struct {
	mu struct {
		sync.Mutex
		known map[string]*list.Element // by file id
		order *list.List               // of *docText, newest use first
		size  int
	}
}

// docText is as much of a document's text as was asked for.
type docText struct {
	id, text string
	limit    int // the text is whole when it is clearly shorter
}

func newTexts() *texts {
	t := &texts{}
	t.mu.known, t.mu.order = make(map[string]*list.Element), list.New()
	return t
}

// find returns the text up to a limit; false when it is not known that far.
func (t *texts) find(id string, limit int) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	element := t.mu.known[id]
	if element == nil {
		return "", false
	}
	known, _ := element.Value.(*docText)
	if known.limit < limit && len(known.text) > known.limit-cutMargin {
		return "", false
	}
	t.mu.order.MoveToFront(element)
	return model.Head(known.text, limit), true
}

func (t *texts) keep(id, text string, limit int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if element := t.mu.known[id]; element != nil {
		t.dropLocked(element)
	}
	t.mu.known[id] = t.mu.order.PushFront(&docText{id: id, text: text, limit: limit})
	t.mu.size += len(text) + textOverhead
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
	t.mu.size -= len(known.text) + textOverhead
}
