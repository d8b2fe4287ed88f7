package deliver

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// maxHead bounds the head of an answer that is kept.
const maxHead = 1 << 10

// hiddenValue stands for what a receiver has told nobody else.
const hiddenValue = "[hidden]"

// headOf is the head of an answer as people read it, whatever bytes it has. Values that may be secrets of the receiver are left out.
func headOf(response *http.Response) string {
	head := new(strings.Builder)
	head.WriteString(response.Proto + " " + response.Status)
	for _, name := range slices.Sorted(maps.Keys(response.Header)) {
		for _, value := range response.Header[name] {
			if secretive(name) {
				value = hiddenValue
			}
			head.WriteString("\n" + name + ": " + value)
			if head.Len() > maxHead {
				return clean(head.String()[:maxHead]) + "…"
			}
		}
	}
	return clean(head.String())
}

// secretive says whether a header's value may let somebody in.
func secretive(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"cookie", "auth", "token", "secret", "key", "session"}, func(word string) bool { return strings.Contains(name, word) })
}

// clean leaves out what no header may have, and what is no text.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' || r == 0x7f {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))
}
