// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace so4cal {

// The files of app/report_page, put into the binary by app/report_assets.cmake. The page has the marks
// /*STYLE*/, /*DATA*/ and /*SCRIPT*/ where the others belong.
extern const char kReportPage[];
extern const char kReportStyle[];
extern const char kReportScript[];

}  // namespace so4cal
