// The one precompiled header: ATen costs 40 s a file without it.
#pragma once
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>
