package node

import (
	"parley/httpedge"
	"parley/httpedge/clientapi"
	"parley/httpedge/convapi"
	"parley/httpedge/gateway"
)

// Surfaces returns all surfaces with their default base paths for callers that only read the route tables: their handlers have
// no dependencies and must not be called.
func Surfaces() []httpedge.Mounted {
	conversations, client, models := convapi.DefaultConfig(), clientapi.DefaultConfig(), gateway.DefaultConfig()
	return []httpedge.Mounted{
		{Prefix: conversations.BasePath, Surface: convapi.New(conversations, convapi.Parts{}).Surface()},
		{Prefix: client.BasePath, Surface: clientapi.New(client, clientapi.Parts{}).Surface()},
		{Prefix: models.BasePath, Surface: gateway.New(models, nil, nil).Surface()},
	}
}
