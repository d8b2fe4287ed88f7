package inference

import (
	"encoding/json"

	"parley/actors/machine/rawjson"
)

// settings is what a model's record says about requests (document 3, 10.1).
type settings struct {
	passUnknown    bool           // allowUnknownPassthrough
	defaults       rawjson.Fields // requestDefaults: for what the request leaves out
	extra          rawjson.Fields // extraBody: added, below what the request's extra_body says
	noStreamedTool bool           // disableStreamingWithTools
}

func readSettings(raw []byte) settings {
	if len(raw) <= len("{}") || !json.Valid(raw) {
		return settings{}
	}
	fields, err := rawjson.Object(raw)
	if err != nil {
		return settings{}
	}
	s := settings{
		passUnknown:    fields.True("allowUnknownPassthrough"),
		noStreamedTool: fields.True("disableStreamingWithTools"),
	}
	s.defaults, _ = rawjson.Object(fields.Get("requestDefaults")) // what is no object says nothing
	s.extra, _ = rawjson.Object(fields.Get("extraBody"))
	return s
}
