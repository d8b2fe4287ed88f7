package chat

import (
	"parley/actors/machine/rawjson"
	"parley/actors/provider"
)

// Usage is what a provider says that a call consumed.
type Usage struct {
	Input, Output, Cached, Total int64
	InputDetails, OutputDetails  []byte // JSON objects, as the provider says them
	Known                        bool   // the provider said both of them
	Disbelieved                  bool   // it said what no call can have consumed: there are no numbers

	input, output, cached, total int64 // as they came
	hasInput, hasOutput          bool
}

// Take reads a usage object: what it says replaces what was said before. Some name what came from their cache elsewhere. It says
// whether there was anything.
func (u *Usage) Take(raw []byte) bool {
	fields, err := rawjson.Object(raw)
	if err != nil {
		return false
	}
	input := count(fields, &u.input, "prompt_tokens", "input_tokens")
	output := count(fields, &u.output, "completion_tokens", "output_tokens")
	if total := count(fields, &u.total, "total_tokens"); !input && !output && !total {
		return false
	}
	u.hasInput, u.hasOutput = u.hasInput || input, u.hasOutput || output
	if raw := fields.Get("prompt_tokens_details"); raw != nil {
		u.InputDetails = append([]byte(nil), raw...)
	}
	if raw := fields.Get("completion_tokens_details"); raw != nil {
		u.OutputDetails = append([]byte(nil), raw...)
	}
	for _, name := range []string{"prompt_tokens_details", "input_tokens_details"} {
		details, _ := rawjson.Object(fields.Get(name)) // without details nothing was cached
		count(details, &u.cached, "cached_tokens")
	}
	if u.cached == 0 {
		count(fields, &u.cached, "cached_tokens", "prompt_cache_hit_tokens")
	}
	u.Disbelieved = !provider.Believable(u.input, u.output, u.cached)
	u.Known = !u.Disbelieved && u.hasInput && u.hasOutput
	if u.Disbelieved {
		u.Input, u.Output, u.Cached, u.Total = 0, 0, 0, 0
		u.InputDetails, u.OutputDetails = nil, nil
		return true
	}
	u.Input, u.Output, u.Cached = u.input, u.output, min(u.cached, u.input)
	u.Total = max(u.total, u.Input+u.Output)
	return true
}

// count reads the first of the fields that is there.
func count(fields rawjson.Fields, into *int64, names ...string) bool {
	for _, name := range names {
		if raw := fields.Get(name); raw != nil {
			*into = provider.Tokens(string(raw))
			return true
		}
	}
	return false
}
