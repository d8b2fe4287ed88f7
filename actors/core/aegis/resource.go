package aegis

import (
	"encoding/json"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"parley/actors/core/dlp"
)

// resource judges what a call carries, and returns the resource without what is redacted.
func (j *judgement) resource() (json.RawMessage, error) {
	c, limits := j.call, j.shield.Rules.Limits
	members := map[string]any{"type": c.Type, "name": c.Name}
	for _, part := range []struct {
		name string
		raw  json.RawMessage
		most int
	}{{"arguments", c.Arguments, limits.MaxArgBytes}, {"content", c.Content, limits.MaxResultBytes}, {"result", c.Result, limits.MaxResultBytes}} {
		if len(part.raw) == 0 {
			continue
		}
		if part.most > 0 && len(part.raw) > part.most {
			j.find(Block, Medium, "too_large", part.name+" has more than "+strconv.Itoa(part.most)+" bytes", part.name)
			continue
		}
		value, err := decode(part.raw)
		if err != nil {
			return nil, err
		}
		members[part.name] = j.value(value, part.name, "")
	}
	return encode(members), nil
}

// value judges a JSON value at a place, whose last name is key, and returns it without what is redacted.
func (j *judgement) value(value any, place, key string) any {
	switch v := value.(type) {
	case string:
		j.reach(v, place, key)
		return j.text(v, place, key)
	case json.Number:
		if clean := j.text(v.String(), place, key); clean != v.String() {
			return clean
		}
		return v
	case []any:
		for i := range v {
			v[i] = j.value(v[i], place+"["+strconv.Itoa(i)+"]", key)
		}
		return v
	case map[string]any:
		names := make([]string, 0, len(v))
		for name := range v {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			at := place + "." + name
			if j.named(name, at) {
				delete(v, name)
				continue
			}
			j.reachHosts(name, at, "")
			v[name] = j.value(v[name], at, name)
		}
		return v
	default:
		return value
	}
}

// named says whether the name of a member is itself something to be taken out.
func (j *judgement) named(name, place string) bool {
	for _, f := range dlp.Scan(name) {
		if j.redacts(f.Class) {
			j.find(Redact, severity(f), "dlp_"+string(f.Kind), "a name is "+article(f.Kind), place)
			j.mutations = append(j.mutations, Mutation{Path: place, Action: "remove"})
			return true
		}
	}
	return false
}

func (j *judgement) redacts(class dlp.Class) bool {
	return class == dlp.Secret && j.shield.DLP.RedactSecrets || class == dlp.Personal && j.shield.DLP.RedactPII
}

// text returns a text without secrets and personal data. Its name says what it is, where it is the name of a secret.
func (j *judgement) text(text, place, name string) string {
	clean := j.clean(text, name, func(f dlp.Finding) {
		j.find(Redact, severity(f), "dlp_"+string(f.Kind), "the text holds "+article(f.Kind), place)
	})
	if clean != text {
		j.mutations = append(j.mutations, Mutation{Path: place, Action: "redact", Replacement: clean})
	}
	return clean
}

// clean returns a text without secrets and personal data, and tells of each; tell may be nil.
func (j *judgement) clean(text, name string, tell func(dlp.Finding)) string {
	if !j.shield.DLP.RedactSecrets && !j.shield.DLP.RedactPII || len(text) > dlp.MaxText {
		return text
	}
	var clean strings.Builder
	last := 0
	for _, f := range dlp.ScanNamed(name, text) {
		if !j.redacts(f.Class) {
			continue
		}
		if tell != nil {
			tell(f)
		}
		clean.WriteString(text[last:f.Start])
		clean.WriteString(mark(f.Kind))
		last = f.End
	}
	clean.WriteString(text[last:])
	return clean.String()
}

func severity(f dlp.Finding) string {
	switch {
	case f.Kind == dlp.PrivateKey:
		return Critical
	case f.Class == dlp.Secret, f.Kind == dlp.CreditCard:
		return High
	default:
		return Medium
	}
}

func article(kind dlp.Kind) string { return "something of kind " + string(kind) }

// leadsOut says whether what is judged names what will be reached.
func (j *judgement) leadsOut() bool { return j.call.Stage == ToolPre || j.call.Stage == RetrievalPre }

// reach judges which hosts and files a text names.
func (j *judgement) reach(text, place, key string) {
	j.reachHosts(text, place, key)
	rules := j.shield.Rules
	if !j.leadsOut() || len(rules.AllowedPathPrefixes) == 0 && len(rules.DeniedPathPrefixes) == 0 {
		return
	}
	file, is := filePath(text, key)
	if !is {
		return
	}
	up := file // where a path leads that goes up far enough
	for strings.HasPrefix(up, "../") {
		up = strings.TrimPrefix(up, "../")
	}
	if up != file {
		up = "/" + up
	}
	switch {
	case slices.ContainsFunc(rules.DeniedPathPrefixes, func(prefix string) bool { return below(file, prefix) || below(up, prefix) }):
		j.find(Block, High, "path_denied", "path "+file+" is denied", place)
	case len(rules.AllowedPathPrefixes) > 0 && !slices.ContainsFunc(rules.AllowedPathPrefixes, func(prefix string) bool { return below(file, prefix) }):
		j.find(Block, High, "path_not_allowed", "path "+file+" is not below one that is allowed", place)
	}
}

// filePath is the path that a text is, without detours, false where it is none.
func filePath(text, key string) (string, bool) {
	named := slices.Contains([]string{
		"path", "file", "filename", "file_name", "filepath", "file_path", "dir", "directory", "folder", "src", "dst", "source", "destination",
	}, strings.ToLower(key))
	slashed := strings.ReplaceAll(strings.TrimPrefix(strings.TrimSpace(text), "file://"), `\`, "/")
	drive := len(slashed) > 2 && slashed[1] == ':' && slashed[2] == '/'
	rooted := strings.HasPrefix(slashed, "/") || strings.HasPrefix(slashed, "./") || strings.HasPrefix(slashed, "../") || strings.HasPrefix(slashed, "~") || drive
	if !named && !rooted || text == "" || strings.Contains(text, "://") && !strings.HasPrefix(text, "file://") {
		return "", false
	}
	for range 3 { // encoded once, or more often
		plain, err := url.PathUnescape(slashed)
		if err != nil || plain == slashed {
			break
		}
		slashed = strings.ReplaceAll(plain, `\`, "/")
	}
	return path.Clean(strings.ReplaceAll(slashed, "\x00", "")), true
}

// below says whether a path is a prefix or below it.
func below(file, prefix string) bool {
	prefix = path.Clean(strings.ReplaceAll(prefix, `\`, "/"))
	return file == prefix || prefix == "/" && strings.HasPrefix(file, "/") || strings.HasPrefix(file, prefix+"/")
}
