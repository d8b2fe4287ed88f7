// Package attachment holds what an agent's settings mean for files: which types it takes, how many a conversation holds, when a
// file's time is over. The edge asks before it reads the bytes, the rules of conversations decide.
package attachment

import (
	"slices"
	"strings"

	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// defaultFiles is how many files a conversation holds when its agent says nothing about it.
const defaultFiles = 10

// Accepts reports whether a media type is among those allowed ("image/png", "image/*"), whatever their parameters; none allowed =
// all are.
func Accepts(allowed []string, mimeType string) bool {
	if len(allowed) == 0 {
		return true
	}
	mimeType = essence(mimeType)
	return slices.ContainsFunc(allowed, func(pattern string) bool {
		pattern = essence(pattern)
		family, any := strings.CutSuffix(pattern, "/*")
		return pattern == mimeType || pattern == "*" || pattern == "*/*" || any && strings.HasPrefix(mimeType, family+"/")
	})
}

// IsText reports whether a media type, without parameters and in lower case, is one of text, to be shown as it is.
func IsText(mimeType string) bool {
	return strings.HasPrefix(mimeType, "text/") || strings.HasSuffix(mimeType, "+json") || strings.HasSuffix(mimeType, "+xml") ||
		slices.Contains(textTypes, mimeType)
}

//nolint:gochecknoglobals // a list; nothing writes to it
var textTypes = []string{
	"application/javascript", "application/json", "application/jsonl", "application/sql", "application/toml", "application/x-ndjson",
	"application/x-sh", "application/x-yaml", "application/xml", "application/yaml",
}

// essence is a media type without its parameters, in lower case.
func essence(text string) string {
	text, _, _ = strings.Cut(text, ";")
	return strings.ToLower(strings.TrimSpace(text))
}

// MaxFiles is how many files a conversation with these settings holds.
func MaxFiles(settings *agentpb.Attachments) int {
	if most := settings.GetMaxFiles(); most > 0 {
		return int(most)
	}
	return defaultFiles
}

// Expired reports whether a file's time is over at a time in ms.
func Expired(file *conversationpb.File, now int64) bool {
	return file.GetExpiresAt() > 0 && file.GetExpiresAt() <= now
}

// Kept returns the files whose time is not over. Others are still to be removed.
func Kept(files []*conversationpb.File, now int64) []*conversationpb.File {
	return slices.DeleteFunc(slices.Clone(files), func(file *conversationpb.File) bool { return Expired(file, now) })
}
