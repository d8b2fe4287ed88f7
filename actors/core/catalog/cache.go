package catalog

import (
	"parley/actors/core/failure"
	"parley/proto/directorypb"
)

// CacheInput is how answers of a model are to be kept. The zero value: not at all. What else is nil has its default.
type CacheInput struct {
	Enabled      *bool  `json:"enabled" required:"true"`
	TTLSeconds   *int64 `json:"ttlSeconds" doc:"How long an answer is given again: 1 to 2592000; 3600 when absent"`
	MaxCacheSize *int64 `json:"maxCacheSize" doc:"How many answers are kept on a node: 1 to 100000; 1000 when absent"`
}

// Bounds of kept answers, and what holds where nothing is said.
const (
	maxCacheTTL      = 30 * 24 * 3600 // seconds
	defaultCacheTTL  = 3600
	maxCacheSize     = 100_000
	defaultCacheSize = 1000
)

// categoryKept is that of models whose answers can be kept.
const categoryKept = "llm"

// applyCache puts what is said of kept answers into a model whose category is known.
func (in *ModelInput) applyCache(model *directorypb.Model) error {
	if in.Cache != nil {
		cache, err := in.Cache.read()
		if err != nil {
			return err
		}
		model.Cache = cache
	}
	if model.GetCache().GetEnabled() && (model.GetCategory() != categoryKept || Dynamic(model) != nil) {
		return invalid(failure.CacheCategory).In("cache").Param("category", categoryKept)
	}
	return nil
}

// read checks the input; nil = no answers are kept.
func (in CacheInput) read() (*directorypb.ModelCache, error) {
	if in == (CacheInput{}) {
		return nil, nil //nolint:nilnil // as said
	}
	if in.Enabled == nil {
		return nil, invalid(failure.Required).In("cache.enabled")
	}
	cache := &directorypb.ModelCache{Enabled: *in.Enabled, TtlSeconds: defaultCacheTTL, Most: defaultCacheSize}
	for _, number := range []struct {
		name  string
		value *int64
		most  int64
		into  *int64
	}{
		{"cache.ttlSeconds", in.TTLSeconds, maxCacheTTL, &cache.TtlSeconds},
		{"cache.maxCacheSize", in.MaxCacheSize, maxCacheSize, &cache.Most},
	} {
		if number.value == nil {
			continue
		}
		if *number.into = *number.value; *number.value < 1 || *number.value > number.most {
			return nil, invalid(failure.OutOfRange).In(number.name).Param("least", 1).Param("most", number.most)
		}
	}
	return cache, nil
}
