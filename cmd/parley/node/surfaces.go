package node

import (
	"parley/httpedge"
	"parley/httpedge/convapi"
)

// Surfaces returns all surfaces with their default base paths, for those who only read the route tables: their
// handlers have nothing to stand on.
func Surfaces() []httpedge.Mounted {
	settings := convapi.DefaultConfig()
	return []httpedge.Mounted{{Prefix: settings.BasePath, Surface: convapi.New(settings, convapi.Parts{}).Surface()}}
}
