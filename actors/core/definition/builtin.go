package definition

import (
	"parley/proto/directorypb"
)

// The models, and their provider, that a fresh server has: they need no network.
const (
	BuiltinModelKey  = "scripted"
	builtinSpeech    = "scripted-tts"
	builtinHearing   = "scripted-stt"
	builtinProjectID = "default"
)

// BuiltinModels are the keys of the models that a project has as long as no others are recorded under them.
func BuiltinModels(projectID string) []string {
	if projectID != builtinProjectID {
		return nil
	}
	return []string{BuiltinModelKey, builtinHearing, builtinSpeech}
}

// BuiltinModel is a model of the default project that exists as long as no other is recorded under its key.
func BuiltinModel(projectID, key string) (*directorypb.Model, *directorypb.Provider, bool) {
	if projectID != builtinProjectID {
		return nil, nil, false
	}
	model := &directorypb.Model{
		ProjectId: projectID, TenantId: builtinProjectID, Key: key, ProviderKey: BuiltinModelKey, ModelId: key, Settings: []byte(`{}`),
	}
	switch key {
	case BuiltinModelKey:
		model.Id, model.Name, model.Category, model.SupportsTools = "mdl_builtin_scripted", "Scripted", "llm", true
		model.Description = "Built in: it answers from a script, without any network, so that everything can be tried."
		model.Settings = []byte(`{"contextTokens":128000}`)
		model.Pricing = []byte(`{"currency":"USD","inputTokenPer1M":1,"outputTokenPer1M":10,"cachedTokenPer1M":1}`)
	case builtinSpeech:
		model.Id, model.Name, model.Category = "mdl_builtin_scripted_tts", "Scripted speech", "tts"
		model.Description = "Built in: it plays a text as tones, which " + builtinHearing + " understands. It makes wav and pcm."
		model.Pricing = []byte(`{"currency":"USD","inputCharacterPer1M":15}`)
	case builtinHearing:
		model.Id, model.Name, model.Category = "mdl_builtin_scripted_stt", "Scripted hearing", "stt"
		model.Description = "Built in: it understands what " + builtinSpeech + " has played, and nothing else."
		model.Pricing = []byte(`{"currency":"USD","inputSecondPer1K":0.1}`)
	default:
		return nil, nil, false
	}
	return model, builtinProvider(projectID), true
}

// BuiltinProvider is the provider of the built-in models, which exists as long as no other is recorded under its key.
func BuiltinProvider(projectID, key string) (*directorypb.Provider, bool) {
	if projectID != builtinProjectID || key != BuiltinModelKey {
		return nil, false
	}
	return builtinProvider(projectID), true
}

func builtinProvider(projectID string) *directorypb.Provider {
	return &directorypb.Provider{
		Id: "prv_builtin_scripted", ProjectId: projectID, TenantId: builtinProjectID, Key: BuiltinModelKey, Label: "Built in",
		Driver: "scripted", Status: "active",
	}
}
